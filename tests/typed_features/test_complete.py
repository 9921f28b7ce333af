"""Features of all nodes: one width, what fills the gaps, and what is kept on disk."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
from tests.typed_features.typed_graphs import academic_graph

from scr.errors import ConfigError, GraphError
from scr.features import FeatureConfig, fit_features
from scr.sources import load_graph
from scr.typed_features import FittedCompletion, complete_features, restore_fitted

AVERAGE = FeatureConfig(scale="none")


def rows(graph, matrix, kind):
    nodes = graph.nodes_of(kind)
    return matrix[nodes.start : nodes.stop]


def test_a_graph_of_one_type_is_prepared_as_ever(random_graph):
    graph = random_graph()
    made, fitted = complete_features(graph, FeatureConfig()), fit_features(graph.features)
    assert made.matrix.tobytes() == fitted.transform(graph.features).tobytes()
    assert (made.steps, made.fitted.identity, made.path) == (fitted.steps, fitted.identity, None)


def test_a_stored_graph_of_one_type_leaves_nothing_beside_it(random_graph, tmp_path):
    graph = load_graph(random_graph().save(tmp_path / "store"))
    before = sorted(graph.path.iterdir())
    complete_features(graph)
    assert sorted(graph.path.iterdir()) == before


def test_the_target_types_rows_are_its_own_features():
    graph = academic_graph()
    made = complete_features(graph, AVERAGE)
    assert made.matrix.shape == (graph.num_nodes, 5)
    np.testing.assert_array_equal(rows(graph, made.matrix, "paper"), graph.features)


def test_steps_say_what_was_done_and_who_got_zeros():
    steps = complete_features(academic_graph(), FeatureConfig(scale="standard")).steps
    assert steps == (
        "paper: scaled columns to mean 0 and deviation 1",
        "author, field, institution: mean of the neighbors that have features, in rounds",
        "1 of 7 author nodes have no neighbor with features, and zeros",
        "1 of 4 field nodes have no neighbor with features, and zeros",
    )


def test_a_narrower_type_keeps_its_distances_in_the_common_width():
    narrow = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    graph = academic_graph(author=narrow)
    made = rows(graph, complete_features(graph, AVERAGE).matrix, "author")
    assert made.shape == (7, 5)
    np.testing.assert_allclose(made @ made.T, narrow @ narrow.T, atol=1e-5)


def test_a_wider_type_is_cut_to_its_leading_singular_directions():
    wide = np.random.default_rng(1).standard_normal((7, 20)).astype(np.float32)
    graph = academic_graph(author=wide)
    made = rows(graph, complete_features(graph, AVERAGE).matrix, "author")
    left, values, _ = np.linalg.svd(wide, full_matrices=False)
    best = left[:, :5] * values[:5]
    np.testing.assert_allclose(made @ made.T, best @ best.T, atol=1e-3)


@pytest.mark.parametrize(("kind", "count"), [("institution", 3), ("author", 7)])
def test_a_wider_type_with_few_rows_or_on_demand_is_projected_at_random(kind, count):
    wide = sp.random_array((count, 40), density=0.5, rng=0, dtype=np.float32, format="csr")
    graph = academic_graph(**{kind: wide})
    made = complete_features(graph, dataclasses.replace(AVERAGE, project="random"))
    assert rows(graph, made.matrix, kind).any()
    assert f"{kind}: reduced 40 columns to 5 by sparse random projection" in made.steps


def test_a_target_type_without_features_is_filled_like_any_other():
    authors = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    graph = academic_graph(paper=None, author=authors)
    made = complete_features(graph, AVERAGE)
    writes = graph.only(["writes"]).adjacency().toarray()[:12, 12:19]
    paper = int(np.flatnonzero(writes.sum(axis=1))[0])
    expected = writes[paper] @ authors / writes[paper].sum()
    np.testing.assert_allclose(made.matrix[paper], expected, atol=1e-6)


def test_random_rows_are_as_long_as_features_and_follow_their_seed():
    papers = 3 * np.random.default_rng(0).standard_normal((12, 200)).astype(np.float32)
    graph = academic_graph(paper=papers)
    made = complete_features(graph, FeatureConfig(scale="none", missing="random")).matrix
    lengths = np.linalg.norm(made[12:], axis=1)
    np.testing.assert_allclose(lengths, 3 * np.sqrt(200), rtol=0.25)
    again = complete_features(graph, FeatureConfig(scale="none", missing="random"))
    other = FeatureConfig(scale="none", missing="random", embedding_seed=1)
    assert again.matrix.tobytes() == made.tobytes()
    assert not np.allclose(complete_features(graph, other).matrix[12:], made[12:])


def test_a_graph_without_any_features_has_random_rows_of_the_width_asked_for():
    graph = academic_graph(paper=None)
    config = FeatureConfig(missing="random", embedding_width=6)
    assert complete_features(graph, config).matrix.shape == (graph.num_nodes, 6)


def test_one_type_without_features_may_have_random_ones(random_graph):
    graph = random_graph(features=None)
    made = complete_features(graph, FeatureConfig(missing="random", embedding_width=6))
    assert made.matrix.shape == (60, 6)


def test_a_stored_graph_keeps_its_matrix_and_reads_it_again(tmp_path, monkeypatch):
    graph = load_graph(academic_graph().save(tmp_path / "store"))
    first = complete_features(graph, FeatureConfig(scale="standard"))
    assert first.path.parent == graph.path / "features"
    assert isinstance(first.matrix, np.memmap)
    monkeypatch.setattr("scr.typed_features._complete.fit_completion", None)  # would fail if called
    again = complete_features(graph, FeatureConfig(scale="standard"))
    assert again.matrix.tobytes() == first.matrix.tobytes()
    assert (again.steps, again.fitted.identity) == (first.steps, first.fitted.identity)
    in_memory = complete_features(
        dataclasses.replace(graph, path=None), fitted=again.fitted
    )  # also with the fitted numbers from disk
    assert in_memory.matrix.tobytes() == first.matrix.tobytes()


def test_what_a_kill_left_after_a_matrix_had_its_name_is_removed(tmp_path):
    graph = load_graph(academic_graph().save(tmp_path / "store"))
    made = complete_features(graph, AVERAGE).path
    left = made.with_name(f".{made.name}.partial")
    left.mkdir()
    (left / "lock").touch()
    assert complete_features(graph, AVERAGE).path == made
    assert [entry.name for entry in made.parent.iterdir()] == [made.name]


def test_what_decides_the_numbers_decides_the_name(tmp_path):
    graph = load_graph(academic_graph().save(tmp_path / "store"))
    other = dataclasses.replace(graph, features=np.asarray(graph.features) + 1)
    configs = [AVERAGE, FeatureConfig(scale="unit"), FeatureConfig(missing="random"),
               FeatureConfig(missing="random", embedding_seed=1)]  # fmt: skip
    made = [complete_features(graph, config).path for config in configs]
    made.append(complete_features(other, AVERAGE).path)
    assert len(set(made)) == 5
    # Settings of embeddings say nothing about averages.
    assert complete_features(graph, FeatureConfig(scale="none", embedding_epochs=3)).path == made[0]


def truncate(file):
    file.write_bytes(file.read_bytes()[:-8])


def alter(file):
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, alter])
@pytest.mark.parametrize("name", ["matrix.npy", "manifest.json"])
def test_a_damaged_matrix_is_made_again(tmp_path, damage, name):
    graph = load_graph(academic_graph().save(tmp_path / "store"))
    made = complete_features(graph, AVERAGE)
    expected = made.matrix.tobytes()
    damage(made.path / name)
    with pytest.warns(UserWarning, match=f"{name}.*it is made again"):
        again = complete_features(graph, AVERAGE)
    assert again.matrix.tobytes() == expected
    assert again.path == made.path


@pytest.mark.parametrize("missing", ["average", "random"])
def test_a_fitted_preparation_survives_storing_and_serves_another_graph(missing):
    config = FeatureConfig(scale="standard", missing=missing)
    fitted = complete_features(academic_graph(), config).fitted
    settings = json.loads(json.dumps(fitted.settings()))
    restored = restore_fitted(settings, fitted.arrays())
    assert isinstance(restored, FittedCompletion)
    assert restored.identity == fitted.identity
    other = academic_graph(seed=5)
    made = complete_features(other, FeatureConfig(), restored).matrix
    own = fit_features(academic_graph().features, FeatureConfig(scale="standard"))
    np.testing.assert_allclose(made[:12], own.transform(other.features), rtol=1e-6)
    assert made[12:].any()


def test_different_widths_without_projection_are_one_sentence():
    graph = academic_graph(author=np.ones((7, 3)))
    with pytest.raises(GraphError, match=r"different widths \(paper 5, author 3\).*project"):
        complete_features(graph, FeatureConfig(project="none"))


def test_nothing_to_average_names_the_ways_out():
    with pytest.raises(GraphError, match=r"No type of the graph(.|\n)*transe"):
        complete_features(academic_graph(paper=None), AVERAGE)


def test_graphs_that_a_preparation_cannot_be_applied_to_are_refused(random_graph):
    fitted = complete_features(academic_graph(), AVERAGE).fitted
    one_type = complete_features(random_graph())
    for graph, message in (
        (random_graph(), "of the types node; expected paper, author"),
        (academic_graph(paper=None, author=np.ones((7, 5))), "no features of the type `paper`"),
        (academic_graph(author=np.ones((7, 5))), "has features of the type `author`"),
    ):
        with pytest.raises(GraphError, match=message):
            complete_features(graph, AVERAGE, fitted)
    with pytest.raises(GraphError, match="expected one type"):
        complete_features(academic_graph(), AVERAGE, one_type.fitted)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("embedding_epochs", 0), ("embedding_held_out", 1.0), ("embedding_learning_rate", 0.0)],
)
def test_settings_that_cannot_work_are_named(setting, value):
    with pytest.raises(ConfigError, match=f"data.{setting}"):
        FeatureConfig(**{setting: value})


def test_a_store_that_may_not_be_written_to_is_worked_with_in_memory(tmp_path, monkeypatch):
    graph = load_graph(academic_graph().save(tmp_path / "store"))
    monkeypatch.setattr("scr.typed_features._cache.os.access", lambda *_: False)
    made = complete_features(graph, AVERAGE)
    assert made.path is None
    assert not (graph.path / "features").exists()

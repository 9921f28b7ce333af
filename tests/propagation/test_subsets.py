from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.propagation.typed_graphs import RELATIONS, random_typed

from scr.errors import ConfigError, GraphError, SourceError
from scr.graph import Graph
from scr.propagation import PropagationConfig, as_subsets, choose_subsets
from scr.propagation._subsets import draw_subsets, read_subsets, single_relations

WRITES, CITES, EXTENDS, AFFILIATED, TOPIC = RELATIONS


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_typed(0)


@given(count=st.integers(1, 30), seed=st.integers(0, 1000))
def test_drawn_subsets_are_distinct_in_order_and_touch_the_target(count, seed):
    graph = random_typed(0)
    drawn = draw_subsets(graph, count, seed)
    assert len(drawn) == len(set(drawn)) == count
    for subset in drawn:
        assert any("paper" in (each.source, each.target) for each in subset)
        assert list(subset) == sorted(subset, key=graph.relations.index)
    assert drawn == draw_subsets(graph, count, seed)


def test_another_seed_draws_other_subsets_and_each_relation_about_half_of_the_time(graph):
    assert draw_subsets(graph, 8, 0) != draw_subsets(graph, 8, 1)
    drawn = [subset for seed in range(100) for subset in draw_subsets(graph, 4, seed)]
    shares = [np.mean([each in subset for subset in drawn]) for each in RELATIONS]
    # Of 30 subsets with one of the four relations at the target: 16 hold such a one, 15 the other.
    assert np.allclose(shares, [16 / 30, 16 / 30, 16 / 30, 15 / 30, 16 / 30], atol=0.1)


def test_where_there_are_too_few_subsets_all_are_taken_with_a_warning(graph):
    every = 2**5 - 2
    with pytest.warns(UserWarning, match=f"has {every} subsets .* 100 were asked for"):
        drawn = draw_subsets(graph, 100, 3)
    assert len(set(drawn)) == every
    assert drawn == draw_subsets(graph, every, 7)
    assert drawn[:2] == ((WRITES,), (CITES,))


def test_single_relations_are_joined_with_the_shortest_chain_to_the_target(graph):
    assert single_relations(graph) == (
        (WRITES,), (CITES,), (EXTENDS,), (WRITES, AFFILIATED), (TOPIC,),
    )  # fmt: skip


def test_a_relation_that_nothing_reaches_is_left_out_of_single_ones():
    graph = random_typed(0, relations=(CITES, AFFILIATED))
    with pytest.warns(UserWarning, match="author:affiliated:institution: it is left out"):
        assert single_relations(graph) == ((CITES,),)


def test_a_file_names_subsets_line_by_line(graph, tmp_path):
    file = tmp_path / "subsets.txt"
    file.write_text("# first\ncites, author:writes:paper\n\nhas_topic # alone\n")
    assert read_subsets(file, graph) == ((WRITES, CITES), (TOPIC,))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("cites\nwrits\n", SourceError, "Line 2 .* no relation `writs`"),
        ("# nothing\n\n", SourceError, "names no subset"),
        ("affiliated\n", GraphError, "never reaches the target type `paper`"),
    ],
)
def test_a_wrong_file_is_one_sentence(graph, tmp_path, text, error, message):
    file = tmp_path / "subsets.txt"
    file.write_text(text)
    with pytest.raises(error, match=message):
        read_subsets(file, graph)
    with pytest.raises(SourceError, match="does not exist"):
        read_subsets(tmp_path / "missing.txt", graph)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cites affiliated\n", "Line 1 .* to author:affiliated:institution"),
        ("cites\ncites\n", "Line 2 .* repeats"),
    ],
)
def test_a_line_that_brings_nothing_is_warned_of(graph, tmp_path, text, message):
    file = tmp_path / "subsets.txt"
    file.write_text(text)
    with pytest.warns(UserWarning, match=message):
        read = read_subsets(file, graph)
    assert len(read) == 1


def test_relations_that_are_reached_through_others_are_not_warned_of(graph, tmp_path):
    file = tmp_path / "subsets.txt"
    file.write_text("writes affiliated\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_subsets(file, graph) == ((WRITES, AFFILIATED),)


def test_the_setting_chooses_how_subsets_come_about(graph, tmp_path):
    (tmp_path / "subsets.txt").write_text("cites\n")
    chosen = {
        value: choose_subsets(graph, PropagationConfig(subsets=value, subset_seed=5))
        for value in (3, "single", "all", str(tmp_path / "subsets.txt"))
    }
    assert list(chosen.values()) == [
        draw_subsets(graph, 3, 5), single_relations(graph), (RELATIONS,), ((CITES,),),
    ]  # fmt: skip


@pytest.mark.parametrize("value", [0, -1, "", " "])
def test_a_setting_that_asks_for_no_subset_is_refused(value):
    with pytest.raises(ConfigError, match="a whole number, 1 or more"):
        PropagationConfig(subsets=value)


@pytest.mark.parametrize("given", ["cites", 8, []])
def test_subsets_are_a_list(graph, given):
    with pytest.raises(ConfigError, match="subset"):
        as_subsets(graph, given)
    assert as_subsets(graph, ["cites writes", [CITES], [("paper", "has_topic", "field")]]) == (
        (WRITES, CITES), (CITES,), (TOPIC,),
    )  # fmt: skip


@pytest.mark.parametrize("asked", [0, -3, "-3", "12", " "])
def test_a_number_of_subsets_is_a_whole_number_from_1_on(asked):
    with pytest.raises(ConfigError, match=r"propagation\.subsets"):
        PropagationConfig(subsets=asked)

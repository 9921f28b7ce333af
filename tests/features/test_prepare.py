from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize, scale

from scr.config import build
from scr.errors import ConfigError, GraphError
from scr.features import (
    FeatureConfig,
    FittedFeatures,
    fit_features,
    random_directions,
    transform_lazily,
)
from scr.features import _prepare as features
from scr.features import _scaling as scaling
from scr.features._reduction import singular_directions

COUNTS = np.random.default_rng(0).poisson(0.3, (50, 20)).astype(np.float32)
COUNTS[7] = 0
BOTH = pytest.mark.parametrize("form", [np.array, sp.csr_array])

EXPECTED = {
    "none": lambda: COUNTS,
    "row": lambda: normalize(COUNTS, norm="l1"),
    "unit": lambda: normalize(COUNTS, norm="l2"),
    "standard": lambda: scale(COUNTS.astype(np.float64)),
    "tfidf": lambda: TfidfTransformer().fit_transform(COUNTS).toarray(),
}


def prepared(matrix, config=None, seed=0):
    return fit_features(matrix, config, seed).transform(matrix)


@BOTH
@pytest.mark.parametrize("name", EXPECTED)
def test_each_scaling_is_that_of_scikit_learn(form, name):
    matrix = prepared(form(COUNTS), FeatureConfig(scale=name))
    np.testing.assert_allclose(matrix, EXPECTED[name](), rtol=1e-5, atol=1e-6)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous


def test_a_constant_column_becomes_zero():
    matrix = prepared(np.full((5, 2), 3.0), FeatureConfig(scale="standard"))
    np.testing.assert_array_equal(matrix, 0)


def test_float16_features_become_float32():
    half = np.ones((4, 3), np.float16)
    np.testing.assert_allclose(prepared(half, FeatureConfig(scale="row")), 1 / 3)


def test_nothing_is_copied_where_nothing_is_done():
    matrix = np.random.default_rng(0).random((30, 4), np.float32)
    fitted = fit_features(matrix)
    assert np.shares_memory(fitted.transform(matrix), matrix)
    assert fitted.steps == ()


@BOTH
def test_the_projection_is_that_of_the_exact_svd(form):
    generator = np.random.default_rng(0)
    matrix = (generator.random((80, 30)) * 0.7 ** np.arange(30)).astype(np.float32)
    _, values, rows = np.linalg.svd(matrix, full_matrices=False)
    vectors = singular_directions(form(matrix), 5)
    np.testing.assert_allclose(np.abs(np.sum(vectors * rows[:5].T, axis=0)), 1, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(matrix @ vectors, axis=0), values[:5], rtol=1e-3)


def test_the_svd_bears_less_rank_than_columns():
    matrix = np.outer(np.arange(40.0), np.arange(30.0)).astype(np.float32)
    projected = matrix @ singular_directions(matrix, 4)
    assert np.isfinite(projected).all()
    np.testing.assert_allclose(np.linalg.norm(projected), np.linalg.norm(matrix), rtol=1e-4)
    assert np.isfinite(singular_directions(np.zeros((9, 8), np.float32), 2)).all()


@pytest.mark.parametrize("reduce", ["svd", "random"])
def test_equal_seeds_reduce_equally(reduce):
    config = FeatureConfig(reduce=reduce, reduce_to=6)
    first, again, other = (prepared(COUNTS, config, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (50, 6)
    assert not np.array_equal(first, other)


def test_random_directions_keep_lengths_roughly():
    rows = np.random.default_rng(0).standard_normal((20, 4000))
    lengths = np.linalg.norm(rows @ random_directions(4000, 1000), axis=1)
    np.testing.assert_allclose(lengths / np.linalg.norm(rows, axis=1), 1, atol=0.15)


def wide(rows=600, columns=2100, value=1.0):
    matrix = sp.random_array((rows, columns), density=0.005, rng=np.random.default_rng(0))
    matrix.data[:] = value
    return sp.csr_array(matrix, dtype=np.float32)


def test_wide_sparse_features_are_reduced_and_narrow_ones_made_dense():
    config = FeatureConfig(reduce_to=16)
    assert prepared(wide(), config).shape == (600, 16)
    assert fit_features(wide(), config).steps == (
        "weighted columns by TF-IDF",
        "scaled rows to length 1",
        "reduced 2,100 columns to 16 by truncated SVD",
    )
    narrow = wide(columns=2048)
    assert prepared(narrow, config).shape == (600, 2048)
    assert fit_features(narrow, config).steps == (
        "scaled rows to sum 1",
        "made 2,048 sparse columns dense",
    )


def test_too_much_work_for_an_svd_is_projected_at_random(monkeypatch):
    monkeypatch.setattr(features, "SVD_WORK", 100)
    fitted = fit_features(wide(), FeatureConfig(reduce_to=16))
    assert fitted.steps[-1] == "reduced 2,100 columns to 16 by sparse random projection"


def test_automatic_scaling_follows_the_stated_rule():
    generator = np.random.default_rng(0)
    spread = generator.standard_normal((50, 6)) * np.array([1, 1, 1, 1, 1, 1000])
    assert fit_features(wide(value=-1.0, columns=50)).scale == "unit"
    assert fit_features(COUNTS * (COUNTS > 1)).scale == "row"
    assert fit_features(spread).scale == "standard"
    assert fit_features(generator.standard_normal((50, 6))).scale == "none"


@pytest.mark.parametrize("scaling", EXPECTED)
@pytest.mark.parametrize("reduce", ["none", "svd", "random"])
def test_a_stored_preparation_does_the_same_to_new_nodes(scaling, reduce):
    config = FeatureConfig(scale=scaling, reduce=reduce, reduce_to=6)
    fitted = fit_features(sp.csr_array(COUNTS), config)
    settings = json.loads(json.dumps(fitted.settings()))
    restored = FittedFeatures.restore(settings, fitted.arrays())
    new = COUNTS[5:9]
    np.testing.assert_array_equal(restored.transform(new), fitted.transform(new))
    whole = fitted.transform(sp.csr_array(COUNTS))
    np.testing.assert_allclose(restored.transform(new), whole[5:9], rtol=1e-4, atol=1e-5)
    assert restored.steps == fitted.steps


def test_new_nodes_with_other_columns_are_refused():
    with pytest.raises(GraphError, match="3 columns; expected 20"):
        fit_features(COUNTS).transform(np.ones((2, 3), np.float32))


def test_no_features_are_told():
    with pytest.raises(GraphError, match="no features"):
        fit_features(None)


@pytest.mark.parametrize("values", [{"scale": "loud"}, {"reduce_to": 0}, {"reduce": "pca"}])
def test_unknown_settings_are_refused(values):
    with pytest.raises(ConfigError, match=r"data\."):
        build(FeatureConfig, values, section="data")


@pytest.fixture
def on_disk(tmp_path):
    def save(matrix):
        np.save(tmp_path / "features.npy", matrix)
        return np.load(tmp_path / "features.npy", mmap_mode="r")

    return save


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("columns", [2, 3, 7, 16, 100, 129])
@pytest.mark.parametrize("scale", ["none", "row", "unit", "standard", "tfidf"])
def test_features_on_disk_are_fitted_and_prepared_by_parts_as_in_memory(
    monkeypatch, on_disk, scale, columns, kind
):
    monkeypatch.setattr(scaling, "_LARGE_BYTES", 0)
    monkeypatch.setattr(scaling, "_PART_VALUES", 900)
    rng = np.random.default_rng(columns)
    matrix = (rng.normal(3, 5, (1000, columns)) * (rng.random((1000, columns)) < 0.7)).astype(kind)
    mapped, config = on_disk(matrix), FeatureConfig(scale=scale)
    expected, fitted = fit_features(matrix, config), fit_features(mapped, config)
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(fitted.arrays()[name], array)
    lazy = transform_lazily(fitted, mapped)
    whole = expected.transform(matrix)
    assert lazy.shape == whole.shape
    np.testing.assert_array_equal(np.asarray(lazy[:512], np.float32), whole[:512])
    np.testing.assert_array_equal(np.asarray(lazy[512:], np.float32), whole[512:])


@pytest.mark.parametrize("reduce", ["none", "svd", "random"])
@pytest.mark.parametrize("scale", ["none", "row", "unit", "standard", "tfidf"])
def test_sparse_features_are_prepared_by_parts_as_all_at_once(monkeypatch, scale, reduce):
    matrix = sp.csr_array(
        sp.random_array((500, 40), density=0.3, rng=np.random.default_rng(0)), dtype=np.float32
    )
    config = FeatureConfig(scale=scale, reduce=reduce, reduce_to=8)
    expected = fit_features(matrix, config)
    whole = expected.scaled(matrix)
    whole = whole.toarray() if sp.issparse(whole) else whole
    if scale == "standard":
        np.testing.assert_array_equal(
            expected.shift, matrix.toarray().mean(0, dtype=np.float64).astype(np.float32)
        )
    monkeypatch.setattr(scaling, "_PART_VALUES", 900)
    fitted, rows = fit_features(matrix, config), []
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(fitted.arrays()[name], array)

    def count_rows(self, part, scaled=FittedFeatures.scaled):
        rows.append(part.shape[0])
        return scaled(self, part)

    monkeypatch.setattr(FittedFeatures, "scaled", count_rows)
    made = fitted.transform(matrix)
    assert sum(rows) == 500
    values = 40 if scale == "standard" else max(12, fitted.width)
    assert max(rows) == 900 // values
    if sp.issparse(fitted.projection) or fitted.projection is None or scale != "standard":
        np.testing.assert_array_equal(made, whole)
    else:  # a dense product, in which BLAS may add in another order
        np.testing.assert_allclose(made, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [3, 100, 129])
@pytest.mark.parametrize("scale", ["row", "unit"])
def test_rows_prepared_in_parts_of_8192_are_those_of_all_to_the_last_bit(scale, columns):
    matrix = np.random.default_rng(0).normal(size=(20_000, columns)).astype(np.float32)
    fitted = fit_features(matrix, FeatureConfig(scale=scale))
    parts = [fitted.transform(matrix[at : at + 8192]) for at in range(0, 20_000, 8192)]
    np.testing.assert_array_equal(np.concatenate(parts), fitted.transform(matrix))


def test_the_scale_is_chosen_alike_on_disk(on_disk):
    matrix = np.random.default_rng(0).normal(size=(50_000, 3)).astype(np.float32) * [1, 1, 50]
    assert fit_features(on_disk(matrix)).scale == fit_features(matrix).scale == "standard"


def test_features_in_memory_or_sparse_are_prepared_at_once(on_disk):
    for matrix in (COUNTS, sp.csr_array(COUNTS)):
        made = transform_lazily(fit_features(matrix), matrix)
        assert isinstance(made, np.ndarray)
        np.testing.assert_array_equal(made, prepared(matrix))

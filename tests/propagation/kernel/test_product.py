from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.propagation.graphs import make_graph, random_matrix, reference_operator

from scr.propagation import _normalization as normalization
from scr.propagation.kernel import _product as kernel
from scr.propagation.kernel import _rows as rows_module


def made_product(graph, features, *, threads=1, norm="row", self_loops=False):
    adjacency = normalization.normalize(graph, norm=norm, self_loops=self_loops)
    out = np.full_like(features, np.nan)
    scaled = features
    if adjacency.column_scale is not None:
        scaled = np.empty_like(features)
        rows_module.scale_rows(features, adjacency.column_scale, scaled)
    assert kernel.product(adjacency, scaled, out, threads=threads)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("norm", ["row", "sym", "col"])
def test_a_hub_that_is_cut_in_pieces_sums_to_the_same(monkeypatch, dtype, self_loops, norm):
    rng = np.random.default_rng(0)
    matrix = random_matrix(rng, 60, 900, directed=False, weighted=True)
    graph = make_graph(matrix, directed=False)
    features = rng.normal(size=(60, 21)).astype(dtype)
    monkeypatch.setattr(rows_module, "HUB_EDGES", 7)
    monkeypatch.setattr(rows_module, "TASK_COST", 16)
    made = made_product(graph, features, threads=3, norm=norm, self_loops=self_loops)
    expected = reference_operator(matrix, norm, self_loops) @ features.astype(float)
    np.testing.assert_allclose(made, expected, atol=1e-5 if dtype == np.float32 else 5e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_number_of_threads_changes_no_bit(monkeypatch, dtype):
    monkeypatch.setattr(rows_module, "HUB_EDGES", 50)
    monkeypatch.setattr(rows_module, "TASK_COST", 100)
    rng = np.random.default_rng(1)
    graph = make_graph(random_matrix(rng, 500, 9000, directed=False, weighted=True), directed=False)
    features = rng.normal(size=(500, 130)).astype(dtype)
    alone = made_product(graph, features, threads=1, norm="sym")
    for threads in (2, 3, 8):
        assert np.array_equal(made_product(graph, features, threads=threads, norm="sym"), alone)


def test_matrices_whose_rows_lie_apart_are_read_and_written_in_place():
    rng = np.random.default_rng(2)
    matrix = random_matrix(rng, 40, 200, directed=False, weighted=False)
    graph = make_graph(matrix, directed=False, weighted=False)
    adjacency = normalization.normalize(graph, norm="row")
    hops = rng.normal(size=(40, 3, 11)).astype(np.float32)
    before = hops.copy()
    assert kernel.product(adjacency, hops[:, 0], hops[:, 2])
    assert np.array_equal(hops[:, :2], before[:, :2])
    expected = reference_operator(matrix, "row", False) @ before[:, 0]
    np.testing.assert_allclose(hops[:, 2], expected, atol=1e-6)


def test_work_is_cut_by_edges_and_covers_every_row_once():
    degrees = np.array([0, 0, 1000, 1, 1, 400, 0, 300, 300, 0])
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    hubs = np.array([2])
    ranges = rows_module._row_ranges(indptr, hubs, threads=2)
    covered = [row for first, last in ranges for row in range(first, last)]
    assert covered == [0, 1, 3, 4, 5, 6, 7, 8, 9]


def test_wide_indices_are_read_too():
    rng = np.random.default_rng(3)
    matrix = random_matrix(rng, 20, 60, directed=False, weighted=True)
    graph = make_graph(matrix, directed=False)
    wide = type(graph)(**{**graph.__dict__, "indices": graph.indices.astype(np.int64)})
    features = rng.normal(size=(20, 4)).astype(np.float32)
    assert np.array_equal(made_product(wide, features), made_product(graph, features))


@pytest.mark.parametrize("value", [65504.0, 65519.0, 1e-7, 6e-8, 2e-8, -3.14159, 0.0, 6.1e-5])
def test_float16_is_rounded_as_numpy_rounds(value):
    matrix = np.full((3, 17), value, dtype=np.float32)
    half = np.empty((3, 17), dtype=np.float16)
    assert rows_module.scale_rows(matrix, None, half)
    assert np.array_equal(half, matrix.astype(np.float16))
    back = np.empty_like(matrix)
    assert rows_module.scale_rows(half, None, back)
    assert np.array_equal(back, half.astype(np.float32))


def test_float16_overflow_is_reported():
    matrix = np.ones((3, 17), dtype=np.float32)
    matrix[2, 16] = 65520
    assert not rows_module.scale_rows(matrix, None, np.empty((3, 17), dtype=np.float16))


_ALL_HALVES = """
import numpy as np
from scr.propagation.kernel import _rows as rows_module, _vector as vector

assert not vector.has_half_instructions()
bits = np.arange(2**16, dtype=np.uint16)
halves = bits.view(np.float16)[np.isfinite(bits.view(np.float16))].reshape(-1, 64)
wide = np.empty(halves.shape, dtype=np.float32)
assert rows_module.scale_rows(halves, None, wide)
assert np.array_equal(wide, halves.astype(np.float32))
rng = np.random.default_rng(0)
numbers = (rng.normal(size=(500, 64)) * 10.0 ** rng.uniform(-9, 4, (500, 64))).astype(np.float32)
numbers[0] = wide[0] + np.spacing(halves[0]).astype(np.float32) / 2  # ties
back = np.empty(numbers.shape, dtype=np.float16)
assert rows_module.scale_rows(numbers, None, back)
assert np.array_equal(back, numbers.astype(np.float16))
assert not rows_module.scale_rows(numbers * 0 + np.float32(65520), None, back)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names an x86 processor")
def test_processors_without_wide_vectors_or_float16_give_the_same_numbers(tmp_path):
    environment = {**os.environ, "NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", _ALL_HALVES], env=environment, check=True, timeout=120)

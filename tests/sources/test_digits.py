from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from scr.sources._digits import _FILE as digits_file
from scr.sources._digits import digits


def test_digits_are_the_images_with_two_labels_per_class():
    graph = digits()
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert np.bincount(graph.labels[graph.train]).tolist() == [2] * 10
    pixels, labels = load_digits(return_X_y=True)
    np.testing.assert_array_equal(graph.features * 16, pixels)
    np.testing.assert_array_equal(graph.labels, labels)


def test_the_stored_neighbors_are_as_near_as_those_of_scikit_learn():
    with np.load(digits_file) as file:
        nearest = file["neighbors"].astype(np.int64)
    pixels = load_digits().data
    distances, _ = NearestNeighbors(n_neighbors=10).fit(pixels).kneighbors()
    found = np.linalg.norm(pixels[nearest] - pixels[:, None], axis=2)
    np.testing.assert_allclose(np.sort(found, axis=1), distances)
    assert not (nearest == np.arange(len(pixels))[:, None]).any()
    assert all(len(set(row)) == 10 for row in nearest.tolist())


def test_every_image_has_at_least_ten_neighbors_mostly_of_its_class():
    graph = digits(labels_per_class=3, seed=1)
    degrees = np.diff(graph.indptr)
    assert degrees.min() >= 10
    sources = np.repeat(np.arange(graph.num_nodes), degrees)
    assert np.mean(graph.labels[sources] == graph.labels[graph.indices]) > 0.9
    assert len(graph.train) == 30

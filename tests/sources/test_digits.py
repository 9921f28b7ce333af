from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from scr.sources._digits import digits


def test_digits_are_the_images_with_two_labels_per_class():
    graph = digits()
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert np.bincount(graph.labels[graph.train]).tolist() == [2] * 10
    images = load_digits().images
    np.testing.assert_allclose(graph.features[42].reshape(8, 8) * 16, images[42])


def test_every_image_has_at_least_ten_neighbors_mostly_of_its_class():
    graph = digits(labels_per_class=3, seed=1)
    degrees = np.diff(graph.indptr)
    assert degrees.min() >= 10
    sources = np.repeat(np.arange(graph.num_nodes), degrees)
    assert np.mean(graph.labels[sources] == graph.labels[graph.indices]) > 0.9
    assert len(graph.train) == 30

"""The embedded data set: handwritten digits as a graph of similar images.

scikit-learn ships 1,797 images of 8 x 8 pixels (UCI, public domain), so a real data set is there
without a download. Each image is linked to its ten nearest by pixels.
"""

from __future__ import annotations

import numpy as np

from scr.graph import Graph, per_class_split

NEIGHBORS = 10
VALID_PER_CLASS = 10
_WHITE = 16
"""The largest pixel value of the data set."""


def digits(labels_per_class: int = 2, seed: int = 0) -> Graph:
    """Load the digits as a graph, with so many training nodes of each of the ten classes.

    Features are pixels in 0..1: ``features[i].reshape(8, 8)`` is image i.
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    split = per_class_split(labels, train=labels_per_class, valid=VALID_PER_CLASS, seed=seed)
    return Graph.from_features(
        (pixels / _WHITE).astype(np.float32), NEIGHBORS, metric="euclidean", labels=labels,
        name="digits", **split._asdict(),
    )  # fmt: skip

"""The embedded data set: handwritten digits as a graph of similar images.

`digits.npz` has 1,797 images of 8 x 8 pixels (Alpaydin and Kaynak 1998, UCI Machine Learning
Repository, CC BY 4.0; those of `sklearn.datasets.load_digits`), so a real data set is there without
a download. Each image is linked to its ten nearest by pixels. These are stored, too: some images
are equally near, and which of them a search finds depends on the machine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scr.graph import Graph, per_class_split

NEIGHBORS = 10
VALID_PER_CLASS = 10
_FILE = Path(__file__).with_name("digits.npz")
_STEP = f"linked each node to its {NEIGHBORS} nearest by euclidean distance"
_WHITE = 16
"""The largest pixel value of the data set."""


def digits(labels_per_class: int = 2, seed: int = 0) -> Graph:
    """Load the digits as a graph, with so many training nodes of each of the ten classes.

    Features are pixels in 0..1: ``features[i].reshape(8, 8)`` is image i.
    """
    with np.load(_FILE) as file:
        pixels, labels, nearest = file["pixels"], file["labels"].astype(np.int64), file["neighbors"]
    split = per_class_split(labels, train=labels_per_class, valid=VALID_PER_CLASS, seed=seed)
    images = np.repeat(np.arange(len(nearest)), NEIGHBORS)
    return Graph.from_edges(
        np.stack([images, nearest.ravel()]), features=(pixels / _WHITE).astype(np.float32),
        labels=labels, name="digits", steps=(_STEP,), **split._asdict(),
    )  # fmt: skip

"""Settings of features: how they are scaled, reduced, brought to one width and filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from scr.config import Chance, Count, Natural, Positive, Settings

Missing = Literal["average", "transe", "distmult", "complex", "random"]
EMBEDDINGS = get_args(Missing)[1:4]
"""Values of `missing` that are trained on the relations alone."""


@dataclass(frozen=True, kw_only=True)
class FeatureConfig(Settings):
    """How features are prepared before they are propagated (recipe section `data`)."""

    section: ClassVar[str] = "data"

    scale: Literal["auto", "none", "row", "unit", "standard", "tfidf"] = "auto"
    """Rows to sum 1 (`row`) or length 1 (`unit`), columns to mean 0 and deviation 1 (`standard`),
    rare columns up and then rows to length 1 (`tfidf`)."""
    reduce: Literal["auto", "none", "svd", "random"] = "auto"
    """Fewer columns by a truncated SVD or by a random projection."""
    reduce_to: Count = 512
    """Columns that are left after a reduction."""
    project: Literal["auto", "none", "svd", "random"] = "auto"
    """How features of another width than the target type's come to that width. Wider ones are cut
    by an SVD (`svd`; `auto` where it is affordable) or a random projection (`random`); narrower
    ones are always turned into it by random orthonormal rows. `none`: widths must be equal."""
    missing: Missing = "average"
    """What nodes of types without features get: the mean of their neighbors' features (`average`),
    an embedding that is trained on the relations (`transe`, `distmult`, `complex`), or random
    numbers (`random`)."""
    embedding_types: Literal["missing", "all"] = "missing"
    """Which types get embeddings: those without features, or all, instead of their features."""
    embedding_width: Count = 128
    """Columns of embeddings and random numbers where no features say how many; the width of
    ogbn-mag's features."""
    embedding_epochs: Count = 30
    """Most passes over all edges."""
    embedding_negatives: Count = 4
    """Corrupted edges that each edge is compared with."""
    embedding_batch: Count = 8192
    """Edges in a step."""
    embedding_learning_rate: Positive = 0.1
    """Of Adagrad, which large knowledge graphs are usually embedded with at this rate."""
    embedding_held_out: Chance = 0.01
    """Share of the edges, 10,000 of them at most, that are ranked after each epoch instead of being
    trained on. 0: every epoch is run."""
    embedding_patience: Count = 3
    """Epochs without a better mean rank of the held-out edges before training ends."""
    embedding_seed: Natural = 0
    """For embeddings and for random numbers."""

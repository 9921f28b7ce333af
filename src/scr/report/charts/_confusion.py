"""Which of many classes are confused, as a picture; of few classes a table says it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scr.report._formatting import percent
from scr.report.charts import _svg as draw

MOST_CLASSES = 50
"""Classes shown in one picture; beyond, the most frequent ones."""
MOST_PAIRS = 50
"""Pairs of classes in the table of the most frequent mistakes."""
_WIDTH, _LABELS = 640, 130
_LONGEST_NAME = 20


def confusion_chart(confusion: NDArray[np.int64], class_names: Sequence[str]) -> draw.Chart:
    """Share of each class (row) that was predicted as each class (column).

    Right predictions are blue, mistakes red. The numbers are the most frequent mistakes.
    """
    nodes = confusion.sum(axis=1) + confusion.sum(axis=0)
    kept = np.sort(np.argsort(-nodes, kind="stable")[:MOST_CLASSES])
    totals = confusion.sum(axis=1)
    counts = confusion[np.ix_(kept, kept)]
    shares = counts / np.maximum(totals[kept, None], 1)
    side = (_WIDTH - _LABELS) / len(kept)
    bottom = len(kept) * side
    parts = []
    for place, index in enumerate(kept.tolist()):
        middle, name = (place + 0.5) * side, _cut(class_names[index])
        parts.append(draw.text(_LABELS - 6, middle + 3, name, "end", "small"))
        x = _LABELS + middle + 3
        parts.append(draw.text(x, bottom + 6, name, "end", "small", turn=-90))
    for row, column in zip(*(each.tolist() for each in np.nonzero(counts)), strict=True):
        # The square root lifts small shares: one percent is still to be seen.
        parts.append(draw.rect(
            _LABELS + column * side, row * side, side, side,
            "blue" if row == column else "red", float(np.sqrt(shares[row, column])),
        ))  # fmt: skip
    few = "" if len(kept) == len(confusion) else f", {len(kept)} most frequent classes"
    picture = draw.drawing(
        parts, bottom + _LABELS, "Share of each label predicted as each class", _WIDTH
    )
    wrong = confusion.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = [
        (int(label), int(guess))
        for label, guess in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[label, guess]
    ]
    rows = [
        (class_names[a], class_names[b], f"{int(wrong[a, b]):,}", percent(wrong[a, b] / totals[a]))
        for a, b in pairs
    ]
    total = int(np.count_nonzero(wrong))
    note = f"The {len(rows)} most frequent of {total:,} kinds of mistakes."
    return draw.Chart(
        f"Which classes are confused{few}", picture,
        ("label", "predicted as", "nodes", "% of the label"), rows,
        note=note if total > len(rows) else "",
    )  # fmt: skip


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"

"""Columns of text: TF-IDF of their words, and a truncated SVD where there are many.

Words and weights are those of scikit-learn's `TfidfVectorizer` with its default settings, but for
words that occur in a single row, which say nothing about another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.features import singular_directions
from scr.tables.columns._base import FittedColumn, UnfitColumn, is_text, present_texts

WORDS_PATTERN = r"(?u)\b\w\w+\b"
"""Of scikit-learn: words of two characters or more."""
MOST_WORDS = 30_000
"""The most frequent words that are counted; with `WIDTH` columns they take 60 MB."""
EXACT_WORDS = 1024
"""Up to so many words each has a column of its own: an SVD loses rare ones, which tell small
classes apart."""
WIDTH, LEAST_WIDTH = 512, 64
"""Columns of the SVD where there are more words, in small tables and in the largest."""
MOST_VALUES = 10**8
"""Rows times columns: 400 MB of features."""
_SVD_ROWS = 100_000
"""Rows that the SVD is fitted to, evenly spaced."""
_LEADING = 8
"""Directions among which the one of the largest deviation is; the first is mostly the mean."""
_LEAST_DEVIATION = 1e-3
"""Text of smaller deviations is alike in all rows and is not scaled up."""
FEW_ROWS = 50
"""In smaller tables, words of a single row are counted too."""


def fit(name: str, column: pa.ChunkedArray, rows: NDArray[np.int64] | None) -> FittedColumn:
    """Words, their weights and the leading singular directions."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not is_text(column):
        raise UnfitColumn(f"holds {column.type}; expected text")
    texts = present_texts(column)
    seen = texts if rows is None else texts.take(pa.array(rows))
    documents = [text or "" for text in seen.to_pylist()]
    least = 1 if len(documents) < FEW_ROWS else 2
    vectorizer = TfidfVectorizer(
        min_df=least, max_features=MOST_WORDS, token_pattern=WORDS_PATTERN, dtype=np.float64
    )
    try:
        weighted = vectorizer.fit_transform(documents)
    except ValueError:  # scikit-learn's word for an empty vocabulary
        raise UnfitColumn("has no words that occur in two rows") from None
    vocabulary = [str(word) for word in vectorizer.get_feature_names_out()]
    missing = int(texts.null_count)
    arrays: dict[str, NDArray[Any]] = {"idf": np.asarray(vectorizer.idf_, np.float64)}
    weighted, parts = sp.csr_array(weighted, dtype=np.float32), vocabulary
    details = [f"{len(vocabulary):,} words"]
    width = _width(len(documents), len(vocabulary))
    if width < len(vocabulary):
        sample = weighted[:: len(documents) // _SVD_ROWS + 1]
        arrays["directions"] = singular_directions(sample, width)
        parts = [str(number) for number in range(1, width + 1)]
        details.append(f"reduced to {width} columns")
    names = tuple(f"{name}: {part}" for part in parts)
    if missing:
        names = (*names, f"{name} missing")
    parameters = {
        "vocabulary": vocabulary, "missing": missing, "details": details,
        "factor": _factor(weighted, arrays.get("directions")),
    }  # fmt: skip
    return FittedColumn(name, "text", names, parameters, arrays)


def _width(rows: int, words: int) -> int:
    """Columns that text becomes: as many as there are words, if they are few."""
    if words <= EXACT_WORDS and rows * words <= MOST_VALUES:
        return words
    return min(max(min(WIDTH, MOST_VALUES // rows), LEAST_WIDTH), rows, words)


def _factor(weighted: sp.csr_array, directions: NDArray[Any] | None) -> float:
    """What gives the direction of the largest deviation the deviation 1, as numbers have it.

    The same for all columns: their proportions say which words matter.
    """
    if directions is None:
        directions = singular_directions(weighted, min(_LEADING, *weighted.shape))
    largest = float((weighted @ directions).std(axis=0, dtype=np.float64).max())
    return 1 / largest if largest > _LEAST_DEVIATION else 1.0


def transform(fitted: FittedColumn, column: pa.ChunkedArray) -> NDArray[np.float32]:
    """TF-IDF of the words that are known, reduced as when it was fitted."""
    if not is_text(column) and not pa.types.is_null(column.type):
        raise UnfitColumn(f"holds {column.type}; expected text")
    texts = present_texts(column.cast(pa.string()))
    weighted = weigh(fitted, [text or "" for text in texts.to_pylist()])
    directions = fitted.arrays.get("directions")
    rows = weighted.toarray() if directions is None else weighted.astype(np.float32) @ directions
    parts = [rows * np.float32(fitted.parameters["factor"])]
    if fitted.parameters["missing"]:
        parts.append(np.asarray(texts.is_null().to_numpy(), bool)[:, None])
    return np.concatenate(parts, axis=1).astype(np.float32)


def weigh(fitted: FittedColumn, documents: list[str]) -> sp.csr_array:
    """TF-IDF of documents: counts of words times their weights, rows of length 1."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    words = fitted.parameters["vocabulary"]
    counter = CountVectorizer(vocabulary=words, token_pattern=WORDS_PATTERN, dtype=np.float64)
    counts = sp.csr_array(counter.transform(documents))
    counts.data *= fitted.arrays["idf"][counts.indices]
    return sp.csr_array(normalize(counts))

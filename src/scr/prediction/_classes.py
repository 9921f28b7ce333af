"""Names of classes as NumPy has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
"""Integers that int64 holds, written as Python writes them."""


def class_array(names: Sequence[str]) -> NDArray[Any]:
    """Names of the classes in their order: int64 where all are plain integers, else text.

    >>> class_array(("10", "2")).tolist(), class_array(("1", "01")).tolist()
    ([10, 2], ['1', '01'])
    """
    is_whole = bool(names) and all(_WHOLE.fullmatch(name) for name in names)
    return np.array(names, dtype=np.int64 if is_whole else np.str_)

"""Dropout, normalization and activation in one pass over the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.encoders.fused._activation import Norm as Norm
    from scr.encoders.fused._activation import activate as activate
    from scr.encoders.fused._activation import make_norm as make_norm
    from scr.encoders.fused._dropout import dropout as dropout
    from scr.encoders.fused._parallel import fits_kernels as fits_kernels
    from scr.encoders.fused._parallel import plain_functions as plain_functions
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

"""Encoders that read hops: from the hops of some rows to logits; one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.encoders._base import Encoder as Encoder
    from scr.encoders._base import EncoderConfig as EncoderConfig
    from scr.encoders._base import HopBatch as HopBatch
    from scr.encoders._base import ProblemShape as ProblemShape
    from scr.encoders._explanation import AttentionKind as AttentionKind
    from scr.encoders._explanation import evaluating as evaluating
    from scr.encoders._fixed_mixtures import MLP as MLP
    from scr.encoders._fixed_mixtures import SGC as SGC
    from scr.encoders._fixed_mixtures import SSGC as SSGC
    from scr.encoders._gamlp import GAMLP as GAMLP
    from scr.encoders._gamlp import GAMLPJK as GAMLPJK
    from scr.encoders._nars import NARS as NARS
    from scr.encoders._nars import PREFIX as PREFIX
    from scr.encoders._sagn import SAGN as SAGN
    from scr.encoders._sign import SIGN as SIGN
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

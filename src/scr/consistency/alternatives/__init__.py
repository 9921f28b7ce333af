"""The other ways to use unlabeled nodes, one paper per file, under the interface that SCR has."""

from scr.consistency.alternatives._entropy import EntropyLoss
from scr.consistency.alternatives._fixmatch import FixMatchLoss
from scr.consistency.alternatives._freematch import FreeMatchLoss
from scr.consistency.alternatives._grand import GrandLoss
from scr.consistency.alternatives._pi import PiLoss
from scr.consistency.alternatives._r_drop import RDropLoss
from scr.consistency.alternatives._softmatch import SoftMatchLoss

__all__ = [
    "EntropyLoss",
    "FixMatchLoss",
    "FreeMatchLoss",
    "GrandLoss",
    "PiLoss",
    "RDropLoss",
    "SoftMatchLoss",
]

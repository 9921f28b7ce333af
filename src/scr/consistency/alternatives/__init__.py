"""The other ways to use unlabelled nodes, one paper per file, under the interface that SCR has."""

from scr.consistency.alternatives.entropy import EntropyLoss
from scr.consistency.alternatives.fixmatch import FixMatchLoss
from scr.consistency.alternatives.freematch import FreeMatchLoss
from scr.consistency.alternatives.grand import GrandLoss
from scr.consistency.alternatives.pi import PiLoss
from scr.consistency.alternatives.r_drop import RDropLoss
from scr.consistency.alternatives.softmatch import SoftMatchLoss

__all__ = [
    "EntropyLoss",
    "FixMatchLoss",
    "FreeMatchLoss",
    "GrandLoss",
    "PiLoss",
    "RDropLoss",
    "SoftMatchLoss",
]

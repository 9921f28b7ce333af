"""The other ways to use unlabeled nodes, one paper per file, under the interface that SCR has."""

from scr.consistency.alternatives._entropy import EntropyLoss as EntropyLoss
from scr.consistency.alternatives._fixmatch import FixMatchLoss as FixMatchLoss
from scr.consistency.alternatives._freematch import FreeMatchLoss as FreeMatchLoss
from scr.consistency.alternatives._grand import GrandLoss as GrandLoss
from scr.consistency.alternatives._pi import PiLoss as PiLoss
from scr.consistency.alternatives._r_drop import RDropLoss as RDropLoss
from scr.consistency.alternatives._softmatch import SoftMatchLoss as SoftMatchLoss

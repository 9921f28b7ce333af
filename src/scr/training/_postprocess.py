"""Settings of what happens to predictions after training: the recipe section `postprocess`.

The equations and the search for settings are in `scr.prediction.smoothing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from scr.config import Count, Positive, Settings, Share

Norm = Literal["sym", "row", "col"]


@dataclass(frozen=True, kw_only=True)
class PostprocessConfig(Settings):
    """Whether and how trained predictions are corrected and smoothed along the edges.

    Paper: Huang et al. 2020, "Combining Label Propagation and Simple Models Out-performs Graph
    Neural Networks", arXiv:2010.13993.
    """

    section: ClassVar[str] = "postprocess"

    method: Literal["none", "correct-and-smooth"] = "none"
    """`correct-and-smooth` spreads the errors on labeled nodes, then the labels."""
    search: bool = True
    """Choose steps, alphas, norms and scale on validation nodes; false: use those below."""
    labels: Literal["train", "train+valid"] = "train"
    """Nodes whose labels are spread. With `train+valid` the search holds half of the validation
    nodes back, and is scored on them."""
    steps: Literal["both", "correct", "smooth"] = "both"
    """Which of the two steps to take."""
    correct_hops: Count = 50
    """How often the errors are propagated."""
    correct_alpha: Share = 0.8
    """Share of the neighbors in each hop of the errors (alpha_1)."""
    correct_norm: Norm = "sym"
    """How the adjacency is normalized for the errors."""
    scale: Positive | Literal["auto"] = "auto"
    """Factor of the propagated errors; `auto` gives each node an error of average size."""
    smooth_hops: Count = 50
    """How often the labels are propagated."""
    smooth_alpha: Share = 0.8
    """Share of the neighbors in each hop of the labels (alpha_2)."""
    smooth_norm: Norm = "sym"
    """How the adjacency is normalized for the labels."""

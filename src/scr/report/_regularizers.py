"""Each regularizer in one line, for pages that name it."""

from __future__ import annotations

from collections.abc import Iterable

_EXPLANATIONS = {
    "none": "training on labels alone",
    "scr": "noisy views of a node agree with their sharpened average",
    "scr-m": "noisy views of a node agree with the prediction of an averaged teacher",
    "pi": "noisy views of a node agree with each other (Pi-model)",
    "r-drop": "noisy views of a node, labeled or not, do not diverge in either direction (R-Drop)",
    "entropy": "predictions for unlabeled nodes are decided (entropy minimization)",
    "fixmatch": "noisy views learn the class that a prediction without noise is sure of (FixMatch)",
    "freematch": "FixMatch with thresholds that follow the model's confidence (FreeMatch)",
    "softmatch": "FixMatch with weights that fall with confidence, no threshold (SoftMatch)",
    "grand": "views with some nodes dropped before propagation agree with their average (GRAND)",
}


def explanation(regularizer: str) -> str:
    """What a regularizer asks of predictions; empty for a name that is not known here."""
    return _EXPLANATIONS.get(regularizer, "")


def explanations(regularizers: Iterable[str]) -> list[str]:
    """A line for each regularizer that appears, in that order."""
    lines = {name: explanation(name) for name in regularizers}
    return [f"{name}: {line}" for name, line in lines.items() if line]

"""Names that a shell completes; read without torch, since a shell asks at every Tab."""

from __future__ import annotations

from collections.abc import Callable, Iterable

ENCODERS = (
    "mlp", "sgc", "ssgc", "sign", "sagn", "gamlp", "gamlp-jk", "nars-sign", "nars-sagn",
    "nars-gamlp", "nars-gamlp-jk", "gcn", "graphsage", "gat", "cluster-gcn", "graph-saint", "rgcn",
)  # fmt: skip
REGULARIZERS = (
    "none", "scr", "scr-m", "pi", "r-drop", "entropy", "fixmatch", "freematch", "softmatch",
    "grand",
)  # fmt: skip
"""As in the catalogs, whose modules import torch; a test compares them."""
ENGINES = ("local", "ray")
METRICS = ("accuracy", "balanced", "macro-f1", "roc-auc", "log-loss")


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    """Names that begin so; after the last comma, where a list is typed.

    >>> _starting(["sgc", "sign"], "gcn,s")
    ['gcn,sgc', 'gcn,sign']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Complete one of these names, or a list of them with commas."""

    def complete(incomplete: str) -> list[str]:
        return _starting(names, incomplete)

    return complete


def recipes(incomplete: str) -> list[str]:
    """Complete the name of a published recipe; files are the shell's business."""
    from scr.recipes import recipe_names

    return _starting(recipe_names(), incomplete)


def datasets(incomplete: str) -> list[str]:
    """Complete the name of a data set; paths are the shell's business."""
    from scr.sources import OGB_DATASETS

    return _starting(("digits", *OGB_DATASETS), incomplete)


def downloads(incomplete: str) -> list[str]:
    """Complete the name of a data set that can be downloaded."""
    from scr.sources import OGB_DATASETS

    return _starting(OGB_DATASETS, incomplete)

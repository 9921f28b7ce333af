"""The table from the name of a regularizer to its term of the loss.

A new method is a subclass of `UnlabeledLoss` and a line here; recipes, the training loop,
checkpoints, comparisons and sweeps read the rest from its class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from scr.config import build, check
from scr.consistency._config import ConsistencyConfig
from scr.consistency._loss import ConsistencyLoss
from scr.consistency._unlabeled import UnlabeledLoss
from scr.consistency.alternatives._entropy import EntropyLoss
from scr.consistency.alternatives._fixmatch import FixMatchLoss
from scr.consistency.alternatives._freematch import FreeMatchLoss
from scr.consistency.alternatives._grand import GrandLoss
from scr.consistency.alternatives._pi import PiLoss
from scr.consistency.alternatives._r_drop import RDropLoss
from scr.consistency.alternatives._softmatch import SoftMatchLoss
from scr.errors import ConfigError

NO_REGULARIZER = "none"
UNLABELED_LOSSES: dict[str, type[UnlabeledLoss]] = {
    "scr": ConsistencyLoss,
    # The same term; its pseudo labels come from an averaged teacher, which the decay asks for.
    "scr-m": ConsistencyLoss,
    "pi": PiLoss,
    "r-drop": RDropLoss,
    "entropy": EntropyLoss,
    "fixmatch": FixMatchLoss,
    "freematch": FreeMatchLoss,
    "softmatch": SoftMatchLoss,
    "grand": GrandLoss,
}
TEACHER_SETTINGS = frozenset({"decay", "judge", "teacher_statistics"})
"""What only SCR-m reads."""
DROPPED_NODES_SETTINGS = frozenset({"drop_node", "top_nodes"})
"""What a method with a choice of noise reads only if its views drop nodes."""
REGULARIZERS: tuple[str, ...] = (NO_REGULARIZER, *UNLABELED_LOSSES)


def settings_of(regularizer: str) -> frozenset[str]:
    """Settings of the section `consistency` that change something for a regularizer."""
    if regularizer == NO_REGULARIZER:
        return frozenset()
    settings = UNLABELED_LOSSES[regularizer].settings
    return settings | TEACHER_SETTINGS if regularizer == "scr-m" else settings


def defaults_of(regularizer: str) -> Mapping[str, Any]:
    """Settings whose default a regularizer has of its own, from its paper."""
    return {} if regularizer == NO_REGULARIZER else UNLABELED_LOSSES[regularizer].defaults


def drops_nodes(regularizer: str) -> bool:
    """Whether views under a regularizer differ on the graph: `grand`."""
    return regularizer != NO_REGULARIZER and UNLABELED_LOSSES[regularizer].drops_nodes


def consistency_config(regularizer: str, values: Mapping[str, Any]) -> ConsistencyConfig | None:
    """The section `consistency` as a regularizer reads it.

    What it does not read has the default, so that equal runs have equal settings: a recipe for
    several regularizers holds the settings of all of them.

    Args:
        regularizer: A name of `REGULARIZERS`.
        values: Plain values, as from TOML; they win over the regularizer's own defaults.
    """
    config = build(ConsistencyConfig, {**defaults_of(regularizer), **values}, section="consistency")
    if regularizer == NO_REGULARIZER:
        return None
    if regularizer == "scr-m" and config.decay is None:
        raise ConfigError("consistency.decay", None, "a number in [0, 1) for `scr-m`")
    least = UNLABELED_LOSSES[regularizer].least_views
    check(config.views >= least, "consistency.views", config.views,
          f"at least {least} for `{regularizer}`, which compares views")  # fmt: skip
    read = settings_of(regularizer)
    if "noise" in read and config.noise == "dropped-nodes":
        read |= DROPPED_NODES_SETTINGS
    unread: dict[str, Any] = {
        field.name: field.default for field in dataclasses.fields(config) if field.name not in read
    }
    return dataclasses.replace(config, **unread)


def make_unlabeled_loss(regularizer: str, config: ConsistencyConfig, classes: int) -> UnlabeledLoss:
    """The term of a regularizer, one of the names of `UNLABELED_LOSSES`."""
    if regularizer not in UNLABELED_LOSSES:
        raise ConfigError("regularizer", regularizer, f"one of {', '.join(UNLABELED_LOSSES)}")
    return UNLABELED_LOSSES[regularizer].from_config(config, classes)

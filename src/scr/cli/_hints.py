"""What the command line adds to errors of the library: the command that helps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from scr.errors import MemoryBudgetError, SCRError

if TYPE_CHECKING:
    from scr.training import HopsBudgetError

OPTIONS = ("hops", "norm", "dtype", "direction", "hop_scale", "scale", "reduce", "reduce_to")
"""Settings that `scr propagate` has options for; others of the features go through `--set`."""


def with_command(error: SCRError) -> SCRError:
    """The error, with the command that helps where there is one."""
    if not isinstance(error, MemoryBudgetError):
        return error
    from scr.training import HopsBudgetError

    if not isinstance(error, HopsBudgetError):
        return error
    hint = f"first `{propagate_command(error)}`, which works on disk; what it leaves is found"
    return MemoryBudgetError(error.message, hint=hint)


def propagate_command(error: HopsBudgetError) -> str:
    """The command that leaves hops beside a store, as training wants them.

    Settings that have their defaults are left out, but for `hops`, `norm` and `dtype`, whose
    defaults are those of a preset.
    """
    words = ["scr propagate", error.store, f"--rows {error.rows}"]
    for config in (error.propagation, error.data):
        for field in dataclasses.fields(config):
            name, value = field.name, getattr(config, field.name)
            if name in OPTIONS and (name in OPTIONS[:3] or value != field.default):
                words.append(f"--{name.replace('_', '-')} {value}")
            elif config is error.data and value != field.default:
                words.append(f"--set data.{name}={value}")
    if error.propagation.self_loops:
        words.append("--self-loops")
    if error.walks_subsets:
        words.append(f"--subsets {error.propagation.subsets}")
        words.append(f"--subset-seed {error.propagation.subset_seed}")
    if error.features_file is not None:
        words.append(f"--features {error.features_file}")
    return " ".join(words)

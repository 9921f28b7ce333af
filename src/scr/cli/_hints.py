"""What the command line adds to errors of the library: options, and the command that helps."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from scr.errors import MemoryBudgetError, SCRError

if TYPE_CHECKING:
    from scr.training import HopsRequest

OPTIONS = ("hops", "norm", "dtype", "direction", "hop_scale", "scale", "reduce", "reduce_to")
"""Settings that `scr propagate` has options for; others of the features go through `--set`."""

SETTING = re.compile(r"`(splits|out|resume|overwrite|label|rows)\b(=?)")
"""What is an option of commands and, in Python, an argument of the same name."""
COLUMN = re.compile(r"`(id|label|split)_column`")
"""What only `scr ingest` has options for."""


def with_command(error: SCRError) -> SCRError:
    """The error with a hint in the words of the command line.

    >>> print(with_command(SCRError("No split", hint="give `splits=random:0.1,0.1`")))
    No split
    <BLANKLINE>
    hint: give `--splits random:0.1,0.1`
    """
    if error.hint is None:
        return error
    request = getattr(error, "request", None)
    if isinstance(error, MemoryBudgetError) and request is not None:
        # Not asked by its class, `training.HopsBudgetError`, which would load torch.
        command = propagate_command(request)
        hint = f"first `{command}`, which works on disk; what it leaves is found"
        return SCRError(error.message, hint=hint)
    hint = COLUMN.sub(lambda of: f"`scr ingest TABLES STORE --{of[1]}-column NAME`", error.hint)
    hint = SETTING.sub(lambda setting: f"`--{setting[1]}{' ' if setting[2] else ''}", hint)
    return SCRError(error.message, hint=hint)


def propagate_command(request: HopsRequest) -> str:
    """The command that leaves hops beside a store, as training wants them.

    Defaults are left out, but for `hops`, `norm` and `dtype`, whose defaults are a preset's.
    """
    words = ["scr propagate", request.store, f"--rows {request.rows}"]
    for config in (request.propagation, request.data):
        for field in dataclasses.fields(config):
            name, value = field.name, getattr(config, field.name)
            if name in OPTIONS and (name in OPTIONS[:3] or value != field.default):
                words.append(f"--{name.replace('_', '-')} {value}")
            elif config is request.data and value != field.default:
                words.append(f"--set data.{name}={value}")
    if request.propagation.self_loops:
        words.append("--self-loops")
    if request.walks_subsets:
        words.append(f"--subsets {request.propagation.subsets}")
        words.append(f"--subset-seed {request.propagation.subset_seed}")
    if request.features_file is not None:
        words.append(f"--features {request.features_file}")
    return " ".join(words)

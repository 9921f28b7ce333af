"""A run in the middle, in one file: everything that decides what the next step does.

One safetensors file holds the tensors, with the rest as JSON in its header, so that a checkpoint is
written whole or not at all and reading one never executes anything. A checksum is in the header.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scr.compute import current_group
from scr.errors import RunError, StoreError
from scr.storage import digest
from scr.training._adam import Optimizer
from scr.training._tensor_file import read_header, read_tensors, write_tensors

FORMAT = 3
"""2 had no checksum."""
_AGAIN = "remove it to start the run again from its beginning"

Machine = dict[str, Any]
"""What decides the last bits of a result besides settings, seed and data."""


@dataclass
class Checkpoint:
    """Tensors by name, and plain values."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    identity: str = ""
    """Names the run that it belongs to; a checkpoint of another run is refused."""
    machines: list[Machine] = field(default_factory=list)
    """Those that the run was trained on before this one."""

    def put(self, prefix: str, tensors: Mapping[str, Tensor]) -> None:
        """Add tensors below a prefix; copies, since training continues."""
        for name, tensor in tensors.items():
            self.tensors[f"{prefix}/{name}"] = tensor.detach().cpu().clone().contiguous()

    def get(self, prefix: str) -> dict[str, Tensor]:
        """All tensors below a prefix, without it."""
        start = f"{prefix}/"
        return {
            name.removeprefix(start): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(start)
        }

    def put_optimizer(self, optimizer: Optimizer) -> None:
        """Add the optimizer's state; its settings come from the recipe."""
        for position, state in optimizer.state_dict()["state"].items():
            self.put(f"optimizer/{position}", state)

    def load_optimizer(self, optimizer: Optimizer) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in self.get("optimizer").items():
            position, _, key = name.partition("/")
            state.setdefault(int(position), {})[key] = tensor
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})

    def write(self, path: Path) -> None:
        """Write atomically: a kill at any moment leaves the old file or the new one."""
        here = this_machine()
        before = [machine for machine in self.machines if machine != here]
        header = {
            "format": str(FORMAT),
            "identity": self.identity,
            "values": json.dumps(self.values),
            "machines": json.dumps({"machines": [*before, here]}),
        }
        write_tensors(path, self.tensors, {**header, "checksum": _checksum(self.tensors, header)})

    @classmethod
    def read(cls, path: Path, identity: str = "") -> Checkpoint:
        """Read a checkpoint, with a clear error where it is damaged or of another run."""
        tensors, header = read_tensors(path, what="checkpoint", hint=_AGAIN)
        if header.get("format") != str(FORMAT):
            raise RunError(
                f"`{path}` has checkpoint format {header.get('format')}; expected {FORMAT}",
                hint="remove it to start the run again with this version",
            )
        if header.pop("checksum", None) != _checksum(tensors, header):
            raise StoreError(
                f"The checkpoint `{path}` has changed since it was written; its checksum is "
                "another",
                hint=_AGAIN,
            )
        if header.get("identity", "") != identity:
            raise RunError(
                f"The checkpoint `{path}` is of a run with another recipe, seed or graph, or with "
                "hops of other nodes; expected one of this run",
                hint="remove it, or give another path",
            )
        known = read_header(path, header, "machines", {"machines": list[dict[str, Any]]})
        return cls(tensors, read_header(path, header, "values", {}), identity, known["machines"])


@contextmanager
def restoring(path: Path) -> Iterator[None]:
    """Say that a checkpoint is damaged where what it holds does not fit the run."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise StoreError(
            f"The checkpoint `{path}` is damaged: {type(error).__name__} {reason}", hint=_AGAIN
        ) from None


def this_machine() -> Machine:
    """Threads, versions and, if there are several, workers that a training run has here."""
    workers = current_group().size
    return {
        **({"workers": workers} if workers > 1 else {}),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def resume_notes(checkpoint: Path | None, here: Machine | None = None) -> list[str]:
    """What differs between here and where a run was begun, in a sentence; none if nothing does.

    Of a run that is not trained in this process, `here` says where it is.
    """
    if checkpoint is None:
        return []
    here, differ = {"workers": 1, **(here or this_machine())}, dict[str, Any]()
    for file in sorted(checkpoint.parent.glob(f"{checkpoint.stem}*{checkpoint.suffix}")):
        try:
            _, header = read_tensors(file, what="checkpoint", only_header=True)
            known = read_header(file, header, "machines", {"machines": list[dict[str, Any]]})
        except (StoreError, RunError):
            continue  # said when it is read
        for machine in known["machines"]:
            machine.setdefault("workers", 1)
            differ |= {name: machine.get(name) for name in here if machine.get(name) != here[name]}
    if not differ:
        return []
    changes = ", ".join(f"{name} {differ[name]} before, {here[name]} now" for name in differ)
    return [
        f"The run was begun elsewhere ({changes}): its result may differ in the last bits from "
        "that of a run that was never stopped"
    ]


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    named = json.dumps(sorted(header.items())).encode()
    parts: list[bytes | memoryview] = [named]
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        parts.append(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        parts.append(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest(*parts)

"""A run in the middle, in one file: everything that decides what the next step does.

One safetensors file holds the tensors, with the rest as JSON in its header, so that a checkpoint is
written whole or not at all and reading one never executes anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from scr.errors import RunError, StoreError
from scr.storage import write_bytes
from scr.training._adam import Optimizer

FORMAT = 2


@dataclass
class Checkpoint:
    """Tensors by name, and plain values."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    identity: str = ""
    """Names the run that it belongs to; a checkpoint of another run is refused."""

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
        values = json.dumps(self.values)
        header = {"format": str(FORMAT), "identity": self.identity, "values": values}
        write_bytes(path, save(self.tensors, metadata=header))

    @classmethod
    def read(cls, path: Path, identity: str = "") -> Checkpoint:
        """Read a checkpoint, with a clear error where it is damaged or of another run."""
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise StoreError(
                f"The checkpoint `{path}` cannot be read: {error}",
                hint="remove it to start the run again from its beginning",
            ) from None
        if header.get("format") != str(FORMAT):
            raise RunError(
                f"`{path}` has checkpoint format {header.get('format')}; expected {FORMAT}",
                hint="remove it to start the run again with this version",
            )
        if header.get("identity", "") != identity:
            raise RunError(
                f"The checkpoint `{path}` is of a run with another recipe, seed or graph, or with "
                "hops of other nodes; expected one of this run",
                hint="remove it, or give another path",
            )
        return cls(tensors, json.loads(header["values"]), identity)

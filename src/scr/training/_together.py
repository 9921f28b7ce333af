"""Train a stage in a group of workers: what they are sent, what they do, what comes back.

The caller prepares rows and label hops, makes the encoder and decides what each stage is. Workers
get these, train as one (`Trainer` in a group) and return the weights. Hops that lie in a file are
read from it by each worker, its share of each batch alone; all machines must see that file, and the
folder of the checkpoint. Other arrays are sent, once to each machine.
"""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from scr.compute import current_group, keep_freed_memory, share_arena
from scr.encoders import Encoder, HopBatch
from scr.engines import Engine, Link, Needs, open_engine
from scr.errors import ConfigError, RunError, StoreError
from scr.networks import OwnModule, encoder_class
from scr.storage import FileRegion, region_of
from scr.training._checkpoint import Machine, this_machine
from scr.training._inductive import InductiveRows
from scr.training._loop import CHECKPOINT_SECONDS, Trainer, denormals_flushed
from scr.training._recipe import Recipe
from scr.training._records import EpochRecord, Stage, TrainingOutcome
from scr.training._rows import Rows, RowSource

TrainStage = Callable[[Encoder, RowSource, Stage], TrainingOutcome]
"""Trains an encoder in place."""


def train_here(encoder: Encoder, rows: RowSource, stage: Stage) -> TrainingOutcome:
    """Train in this process."""
    return Trainer(encoder, rows, stage).run()


@dataclass(frozen=True)
class GroupOfWorkers:
    """Trains in workers of an engine."""

    engine: Engine
    workers: int
    """As many, where there is room for them."""
    needs: Needs
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Least time between two checkpoints; what is done after one is lost with a worker."""

    def __call__(self, encoder: Encoder, rows: RowSource, stage: Stage) -> TrainingOutcome:
        """Train an encoder in place; all else is as of `Trainer`."""
        path = stage.checkpoint
        plain = dataclasses.replace(
            stage, on_epoch=None, should_stop=None,
            checkpoint=None if path is None else path.absolute(),
        )  # fmt: skip

        def on_message(record: EpochRecord) -> None:
            if stage.on_epoch is not None:
                stage.on_epoch(record)

        weights, outcome = self.engine.together(
            train_share, _Work(
                encoder, _pack(rows), plain, self.needs.cores, self.checkpoint_seconds
            ),
            workers=self.workers, needs=self.needs, grows=path is not None, on_message=on_message,
            should_stop=lambda: stage.should_stop is not None and stage.should_stop(),
        )  # fmt: skip
        encoder.load_state_dict(weights)
        encoder.to(rows.device)
        return outcome

    def machine(self) -> Machine:
        """As of `this_machine`, of the workers."""
        several = {"workers": self.workers} if self.workers > 1 else {}
        return {**several, **this_machine(), "threads": self.needs.cores}


@contextmanager
def workers_of(
    engine: str | Engine,
    address: str | None = None,
    *,
    workers: int | None = None,
    cores: int = 1,
    device: str = "cpu",
) -> Iterator[GroupOfWorkers | None]:
    """The workers that an engine trains with; none of the engine `local`, which trains here.

    Args:
        engine: A name, or an engine that is open, and stays so.
        address: Of a cluster; see `open_engine`.
        workers: How many; none: as many as there is room for.
        cores: Threads of each.
        device: Where torch computes.
    """
    for name, number in (("workers", workers), ("worker_cores", cores)):
        if number is not None and number < 1:
            raise ConfigError(name, number, "a whole number of at least 1")
    if isinstance(engine, Engine):
        needs = Needs(cores=cores, gpu=torch.device(device).type == "cuda")
        yield GroupOfWorkers(engine, workers or engine.slots(needs), needs)
        return
    if engine == "local":
        hint = "pass `--engine ray`"
        if workers is not None:
            raise ConfigError("workers", workers, "none with the engine `local`", hint=hint)
        if cores != 1:
            raise ConfigError("worker_cores", cores, "none with the engine `local`", hint=hint)
        open_engine(engine, address).close()  # refuses an address
        yield None
        return
    with open_engine(engine, address) as opened, workers_of(
        opened, workers=workers, cores=cores, device=device
    ) as group:  # fmt: skip
        yield group


def check_together(recipe: Recipe, own: OwnModule | None = None) -> None:
    """Refuse what cannot be trained by several workers."""
    expected = "`local`"
    if own is not None:
        raise ConfigError("engine", "ray", f"{expected} with a module of your own")
    if encoder_class(recipe.encoder).batch_kind is not HopBatch:
        raise ConfigError(
            "engine", "ray", f"{expected} with `{recipe.encoder}`, which reads the graph",
            hint="choose an encoder that reads hops, such as gamlp",
        )  # fmt: skip
    if recipe.drops_nodes:
        raise ConfigError(
            "engine", "ray", f"{expected} with `{recipe.regularizer}`, which drops nodes of the "
            "graph",
        )  # fmt: skip


class _Work(NamedTuple):
    """What each worker is sent."""

    encoder: Encoder
    rows: _Packed
    stage: Stage
    cores: int
    checkpoint_seconds: float


def train_share(work: _Work, link: Link) -> tuple[dict[str, Tensor], TrainingOutcome]:
    """Train in the group that this process is in; returns weights in main memory."""
    torch.set_num_threads(work.cores)
    keep_freed_memory()
    share_arena()  # what the thread of one share frees, that of another takes
    stage, is_first = work.stage, current_group().rank == 0
    if is_first:
        _check_folder(stage.checkpoint)
        stage = dataclasses.replace(
            stage, should_stop=link.should_stop,
            on_epoch=lambda record: link.send(record, record.epoch),
        )  # fmt: skip
    rows = work.rows.unpack()
    with torch.random.fork_rng(devices=[]), denormals_flushed():
        trainer = Trainer(work.encoder, rows, stage)
        trainer.checkpoint_seconds = work.checkpoint_seconds
        outcome = trainer.run()
    weights = work.encoder.state_dict() if is_first else {}
    return {name: value.detach().cpu() for name, value in weights.items()}, outcome


def _check_folder(checkpoint: Path | None) -> None:
    if checkpoint is not None and not checkpoint.parent.is_dir():
        raise RunError(
            f"There is no folder `{checkpoint.parent}` on the worker's machine "
            f"`{socket.gethostname()}`; expected the folder of the run",
            hint="choose a folder that all machines of the cluster see",
        )


@dataclass(frozen=True)
class _Packed:
    """Rows without the arrays that lie in files."""

    fields: dict[str, Any]
    hops: FileRegion | None
    scored: _Packed | None = None
    """Of rows of which validation nodes are in another graph."""

    def unpack(self) -> RowSource:
        fields = dict(self.fields)
        if self.hops is not None:
            fields["hops"] = _mapped(self.hops)
        rows = Rows(**fields)
        return rows if self.scored is None else InductiveRows(rows, self.scored.unpack())


def _pack(rows: RowSource) -> _Packed:
    if isinstance(rows, InductiveRows):
        return dataclasses.replace(_pack(rows.trained), scored=_pack(rows.scored))
    assert isinstance(rows, Rows)
    fields = {field.name: getattr(rows, field.name) for field in dataclasses.fields(rows)}
    region = region_of(rows.hops)
    if region is not None:
        region = dataclasses.replace(region, path=region.path.absolute())
        fields["hops"] = None
    return _Packed(fields, region)


def _mapped(region: FileRegion) -> Any:
    """The array of a file, on the machine of a worker."""
    try:
        size = region.path.stat().st_size
    except OSError as error:
        size, reason = 0, str(error.strerror)
    else:
        reason = f"it has {size:,} bytes"
    if size < region.offset + region.bytes:
        raise StoreError(
            f"The worker's machine `{socket.gethostname()}` cannot read the hops "
            f"`{region.path}`: {reason}",
            hint="keep the store where all machines of the cluster see it",
        )
    return np.memmap(region.path, region.dtype, "r", region.offset, region.shape)

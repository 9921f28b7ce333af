"""Train embeddings: true edges must score above corrupted ones.

Every epoch is a seeded permutation of all edges, with corrupted ones drawn anew. Some edges are
held out: after each epoch they are ranked among corrupted ones, and training ends when the mean
rank gets no better. What counts are the embeddings of the best epoch.

Generators are made anew for each epoch, and gradients are sparse sums in the order of the batch:
the same seed gives the same numbers, with any number of threads and after any interruption.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scr.compute import OnProgress
from scr.errors import GraphError
from scr.features import FeatureConfig
from scr.graph import Graph
from scr.storage import ArtifactWriter, open_array
from scr.typed_features._cache import open_whole
from scr.typed_features._embedding_model import EmbeddingModel
from scr.typed_features._triples import Triples, triples_of

CHECKPOINT_KIND, SCHEMA = "embeddings-checkpoint", 1
CANDIDATES = 50
"""Corrupted edges among which a held-out edge is ranked."""
MOST_HELD_OUT = 10_000
"""Enough for a mean rank with two digits."""
_RANKED_AT_ONCE = 1024
"""Held-out edges in a step."""
_HELD_OUT, _RANKED, _EPOCHS = 0, 1, 2
"""Second part of a generator's seed: one for each purpose, and one for each epoch."""


class EmbeddingTraining:
    """A model, its optimizer, and how good it was."""

    best_rank: float | None
    """Mean rank of the held-out edges after the best epoch, 1 is best; none without such edges."""
    best_epoch: int

    def __init__(self, graph: Graph, config: FeatureConfig, width: int, device: str) -> None:
        triples, seed = triples_of(graph), config.embedding_seed
        if len(triples) == 0:
            raise GraphError(
                f"The graph `{graph.name}` has no edges to learn embeddings from; expected some",
                hint='set `data.missing = "random"`',
            )
        self.config, self.device = config, torch.device(device)
        relations = len(graph.relations)
        self.model = EmbeddingModel(config.missing, graph.num_nodes, relations, width, seed)
        self.model.module.to(self.device)
        self.optimizer = torch.optim.Adagrad(
            self.model.module.parameters(), lr=config.embedding_learning_rate
        )
        held_out = min(int(config.embedding_held_out * len(triples)), MOST_HELD_OUT)
        order = np.random.default_rng([seed, _HELD_OUT]).permutation(len(triples))
        self.ranked, self.trained = triples.take(order[:held_out]), triples.take(order[held_out:])
        self.epoch, self.best_epoch = 0, 0
        self.best_rank = None
        self.best = self.model.node_rows().cpu()

    def run(
        self, checkpoint: Path | None, seconds: float, on_progress: OnProgress | None
    ) -> NDArray[np.float32]:
        """Train to the end, from where an earlier attempt left off; gives the best epoch's rows.

        The state is written to `checkpoint`, if there is one, with at least `seconds` between.
        """
        epochs, patience = self.config.embedding_epochs, self.config.embedding_patience
        if checkpoint is not None:
            self._read(checkpoint)
        written = time.monotonic()
        while self.epoch < epochs and self.epoch - self.best_epoch < patience:
            self._train_epoch()
            self.epoch += 1
            rank = self.mean_rank()
            # The rows of the best epoch are kept, or the last without held-out edges.
            if rank is None or self.best_rank is None or rank < self.best_rank:
                self.best_rank, self.best_epoch = rank, self.epoch
                self.best = self.model.node_rows().cpu()
            if on_progress is not None:
                best = self.best_rank
                words = f", mean rank {best:.1f} of {CANDIDATES + 1}" if best else ""
                on_progress(f"Embedding{words}", self.epoch, epochs)
            if checkpoint is not None and time.monotonic() - written >= seconds:
                self._write(checkpoint)
                written = time.monotonic()
        return self.best.numpy()

    def _train_epoch(self) -> None:
        generator = np.random.default_rng([self.config.embedding_seed, _EPOCHS + self.epoch])
        order, step = generator.permutation(len(self.trained)), self.config.embedding_batch
        for first in range(0, len(order), step):
            batch = self.trained.take(order[first : first + step])
            true, corrupted = self._scores(batch, self.config.embedding_negatives, generator)
            self.optimizer.zero_grad()
            self.model.loss(true, corrupted).backward()
            with warnings.catch_warnings():
                # Of checks of sparse tensors that Adagrad makes, which nobody here can switch on.
                warnings.filterwarnings("ignore", "Sparse invariant checks")
                self.optimizer.step()

    @torch.no_grad()
    def mean_rank(self) -> float | None:
        """Mean rank of the held-out edges, 1 is best; ties count half; none without such edges."""
        if len(self.ranked) == 0:
            return None
        generator = np.random.default_rng([self.config.embedding_seed, _RANKED])
        total, places = 0.0, np.arange(len(self.ranked))
        for first in range(0, len(places), _RANKED_AT_ONCE):
            batch = self.ranked.take(places[first : first + _RANKED_AT_ONCE])
            true, corrupted = self._scores(batch, CANDIDATES, generator)
            above, equal = corrupted > true[:, None], corrupted == true[:, None]
            total += len(batch) + float(above.sum()) + float(equal.sum()) / 2
        return total / len(self.ranked)

    def _scores(
        self, batch: Triples, count: int, generator: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        heads, tails = batch.corrupted(count, generator)
        true = [self._tensor(ends) for ends in (batch.heads, batch.relations, batch.tails)]
        relations = true[1][:, None].expand(heads.shape)
        return self.model.scores(*true), self.model.scores(
            self._tensor(heads), relations, self._tensor(tails)
        )

    def _tensor(self, numbers: NDArray[Any]) -> Tensor:
        return torch.from_numpy(numbers.astype(np.int64, copy=False)).to(self.device)

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.model.module.named_parameters():
            yield f"{name}.value", parameter.data
            yield f"{name}.squares", self.optimizer.state[parameter]["sum"]
        yield "best", self.best

    def _write(self, path: Path) -> None:
        with ArtifactWriter(path, kind=CHECKPOINT_KIND, schema=SCHEMA, overwrite=True) as writer:
            for name, tensor in self._state():
                writer.write_array(name, tensor.cpu().numpy())
            writer.metadata = {"epoch": self.epoch, "best_epoch": self.best_epoch,
                               "best_rank": self.best_rank}  # fmt: skip

    def _read(self, path: Path) -> None:
        """Take over the state of an earlier attempt, if there is one and it is whole."""
        manifest = open_whole(path, CHECKPOINT_KIND, SCHEMA)
        if manifest is None:
            return
        # Adagrad's count of steps only matters for a decay of the learning rate, which is 0.
        for name, tensor in self._state():
            tensor.copy_(torch.from_numpy(np.array(open_array(manifest, name))))
        self.epoch, self.best_epoch = manifest.metadata["epoch"], manifest.metadata["best_epoch"]
        self.best_rank = manifest.metadata["best_rank"]

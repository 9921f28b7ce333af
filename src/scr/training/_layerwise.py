"""Predictions of coupled encoders: all nodes layer by layer, each layer a range of rows at a time.

A node's logits depend on neighbors of neighbors, which many nodes share; computing a layer for all
nodes before the next one computes nothing twice. What is in memory is two layers of activations,
not all of them as in training. The last layer is computed for the nodes that are asked for.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from scr.encoders.layers import Projected
from scr.networks import LayeredEncoder, OwnGraphEncoder
from scr.training._rows import stacked

if TYPE_CHECKING:
    from scr.training._graph_rows import GraphRows

ROWS_AT_ONCE = 1 << 16
"""Rows of a layer that are computed at once in a graph that is not trained on whole."""


class LayerwiseLogits:
    """Logits of any nodes; what the last layer reads is kept until the weights change."""

    def __init__(self, rows: GraphRows, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self.rows, self.rows_at_once = rows, rows_at_once
        self._weights: dict[str, Tensor] = {}
        self._known: Tensor | Projected | None = None

    def forget(self) -> None:
        """Free what is kept."""
        self._weights, self._known = {}, None

    def stream(
        self, model: nn.Module, index: Tensor, at_once: int
    ) -> Generator[tuple[Tensor, Tensor]]:
        """Parts of `index`, in order, each with its logits; as of `RowSource.stream_logits`."""
        with torch.no_grad():
            known = self._before_last(model)
        for part in index.split(at_once):
            with torch.no_grad():
                yield part, self._logits(model, known, part).cpu()

    def _logits(self, model: nn.Module, known: Tensor | Projected, part: Tensor) -> Tensor:
        prepared = self.rows.prepared
        last = len(prepared.layers) - 1
        if isinstance(model, LayeredEncoder) and not prepared.whole:
            edges = prepared.layers[last].take(part.numpy())
            logits = model.layer_output(last, known, edges)
        else:  # logits of all are known
            assert isinstance(known, Tensor)
            logits = known.index_select(0, part.to(known.device))
        if isinstance(model, LayeredEncoder):
            return model.with_labels(logits, self.rows.label_hops(part))
        return logits

    def _before_last(self, model: nn.Module) -> Tensor | Projected:
        """What the last layer reads; in a graph that is trained on whole, what it gives."""
        state = model.state_dict()
        if self._known is not None and _equal(state, self._weights):
            return self._known
        self.forget()
        if isinstance(model, LayeredEncoder):
            self._known = self._computed(model)
        else:
            self._known = cast(OwnGraphEncoder, model).every_row(self.rows.whole_graph)
        self._weights = {name: value.clone() for name, value in state.items()}
        return self._known

    def _computed(self, encoder: LayeredEncoder) -> Tensor | Projected:
        prepared = self.rows.prepared
        count = len(prepared.layers) - (not prepared.whole)
        x = encoder.inputs(self.rows.whole_graph)
        for number, adjacency in enumerate(prepared.layers[:count]):
            sent = encoder.layer_input(number, x)
            if prepared.whole or adjacency.rows <= self.rows_at_once:
                x = encoder.layer_output(number, sent, adjacency)
                continue
            parts = (
                encoder.layer_output(
                    number,
                    sent,
                    adjacency.range(start, min(start + self.rows_at_once, adjacency.rows)),
                )
                for start in range(0, adjacency.rows, self.rows_at_once)
            )
            x = stacked(parts, adjacency.rows)
        if not prepared.whole:
            return encoder.layer_input(count, x)
        assert isinstance(x, Tensor)
        return x


def _equal(state: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return state.keys() == other.keys() and all(
        torch.equal(value, other[name]) for name, value in state.items()
    )

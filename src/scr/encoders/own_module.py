"""Modules of the user's own in the place of an encoder, told apart by what their `forward` takes.

    forward(hops)           hops of some rows, a tensor of shape (rows, hops, features)
    forward(batch)          the same as a `HopBatch`, which has propagated labels too
    forward(x, edge_index)  nodes and edges, as layers of torch_geometric take them; `edge_weight`
                            is given as well where it is asked for and the graph has weights

A module is taken with the weights that it has; a function from a `ProblemShape` to a module makes
fresh ones for every seed and stage. No file ever names the code of either.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from scr.config import check
from scr.encoders.base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders.graph_batch import GraphBatch
from scr.encoders.graph_encoder import GraphEncoder, check_neighbors
from scr.errors import ConfigError

Reads = Literal["hops", "batch", "edges"]
USUAL_DEPTH = 2


@dataclass(frozen=True, eq=False)
class OwnModule:
    """What a user gave: a module, or a function that makes one for the sizes of the data."""

    given: nn.Module | Callable[[ProblemShape], nn.Module]

    def build(self, shape: ProblemShape) -> nn.Module:
        """A module that may be trained: a copy, or a new one."""
        if isinstance(self.given, nn.Module):
            return copy.deepcopy(self.given)
        made: Any = self.given(shape)
        if not isinstance(made, nn.Module):
            raise ConfigError(
                "encoder", type(made).__name__, "a function that returns a torch module"
            )
        return made

    def settings(self, shape: ProblemShape) -> dict[str, Any]:
        """The section `encoder` of a recipe, as far as the module tells.

        Args:
            shape: Sizes for a first look; those of the training may differ.
        """
        with torch.random.fork_rng(devices=[]):
            module = self.given if isinstance(self.given, nn.Module) else self.build(shape)
        if what_is_read(module) != "edges":
            return {"name": OwnHopEncoder.name}
        return {"name": OwnGraphEncoder.name, "layers": depth(module) or USUAL_DEPTH}


def separate_module(encoder: Any) -> tuple[dict[str, Any], OwnModule | None]:
    """Settings and, if there is one, the user's own module.

    Args:
        encoder: A name, a table of settings (with a module as `module`), a module or a function.
    """
    if isinstance(encoder, nn.Module):
        return {}, OwnModule(encoder)
    if encoder is None or isinstance(encoder, str):
        return ({} if encoder is None else {"name": encoder}), None
    if isinstance(encoder, Mapping):
        settings = dict(encoder)
        module = settings.pop("module", None)
        return settings, None if module is None else separate_module(module)[1]
    if callable(encoder):
        return {}, OwnModule(encoder)
    raise ConfigError(
        "encoder", encoder, "a name, a table of settings, a torch module, or a function for one"
    )


def what_is_read(module: nn.Module) -> Reads:
    """What a module's `forward` takes; anything that cannot be given is refused."""
    if isinstance(module, Encoder):
        if module.batch_kind is HopBatch:
            return "batch"
        raise ConfigError("encoder", type(module).__name__, f"its name, `{module.name}`")
    names, required, kind = _taken(module)
    if names[1:2] == ["edge_index"] and len(required) <= 2:
        return "edges"
    if names and len(required) <= 1:
        annotated = kind is HopBatch or str(kind).endswith("HopBatch")
        return "batch" if annotated or names[0] == "batch" else "hops"
    raise ConfigError(
        "encoder",
        f"{type(module).__name__}.forward({', '.join(names)})",
        "a module with forward(hops), forward(batch) or forward(x, edge_index)",
        hint="wrap it in a module that takes one of these",
    )


def _taken(module: nn.Module) -> tuple[list[str], list[str], object]:
    """Names of positional arguments, of those without a default, and the first one's annotation."""
    described = getattr(getattr(module, "signature", None), "param_dict", None)
    if isinstance(described, dict):  # torch_geometric.nn.Sequential takes *args, and says which
        return [*described], [*described], None
    found = [
        each
        for each in inspect.signature(module.forward).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    required = [each.name for each in found if each.default is each.empty]
    return [each.name for each in found], required, found[0].annotation if found else None


def depth(module: nn.Module) -> int:
    """How many layers of torch_geometric a module has, each of which reads the edges once."""
    return sum(
        any(base.__name__ == "MessagePassing" for base in type(layer).__mro__)
        for layer in module.modules()
    )


@dataclass(frozen=True, kw_only=True)
class OwnHopConfig:
    """A module that reads hops has all its settings itself."""


@dataclass(frozen=True, kw_only=True)
class OwnGraphConfig:
    """How a module that reads edges is served."""

    layers: int = USUAL_DEPTH
    """How many hops away from a node the module looks: layers of neighbors that a batch needs."""
    neighbors: tuple[int, ...] | None = None
    """Neighbors drawn for each node, layer by layer from the seeds outwards, -1 for all of them. An
    empty list: the whole graph in every step. None: the whole graph if it is small, or 10 each."""

    def __post_init__(self) -> None:
        check(self.layers >= 1, "encoder.layers", self.layers, "a whole number, 1 or more")
        check_neighbors(self.neighbors, self.layers)


class OwnHopEncoder(Encoder):
    """A module that reads hops."""

    name = "own-hops"
    config_class = cast("type[EncoderConfig]", OwnHopConfig)

    def __init__(self, shape: ProblemShape, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.reads = what_is_read(module)
        if self.reads == "edges":
            raise ConfigError(
                "encoder", type(module).__name__, "a module that reads hops, as in the training"
            )
        if self.reads == "hops":
            _refuse_labels(shape)

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        return cast(Tensor, self.module(batch if self.reads == "batch" else batch.hops))


class OwnGraphEncoder(GraphEncoder):
    """A module that reads nodes and edges."""

    name = "own-graph"
    config_class = cast("type[EncoderConfig]", OwnGraphConfig)
    aggregation = "none"
    layerwise: ClassVar[bool] = False

    def __init__(self, shape: ProblemShape, module: nn.Module) -> None:
        Encoder.__init__(self)
        if what_is_read(module) != "edges":
            raise ConfigError(
                "encoder", type(module).__name__, "a module that reads edges, as in the training"
            )
        _refuse_labels(shape)
        self.module = module
        self.weighs_edges = "edge_weight" in _taken(module)[0]
        self.embeddings = self.label_branch = None

    def every_row(self, batch: GraphBatch) -> Tensor:
        """Logits of all nodes of a batch."""
        assert isinstance(batch.features, Tensor)
        weights = batch.layers[0].weights
        named = {}
        if self.weighs_edges and weights is not None:
            named["edge_weight"] = torch.tensor(weights).to(batch.features)
        return cast(Tensor, self.module(batch.features, batch.edge_index, **named))

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits of shape (seeds, classes)."""
        return self.every_row(batch).index_select(0, batch.seeds)


OWN: dict[str, type[OwnHopEncoder | OwnGraphEncoder]] = {
    each.name: each for each in (OwnHopEncoder, OwnGraphEncoder)
}


def _refuse_labels(shape: ProblemShape) -> None:
    check(shape.label_hops == 0, "propagation.label_hops", shape.label_hops,
          "0 for a module that is not given propagated labels")  # fmt: skip


@torch.no_grad()
def try_out(encoder: Encoder, batch: HopBatch | GraphBatch, classes: int) -> None:
    """See, before training, that a module takes what it will be given and gives logits.

    Layers that find out their widths do so here.

    Args:
        encoder: Around a module of one's own.
        batch: Some rows, on the device of the encoder.
        classes: How many there are.
    """
    others = [name for name, value in encoder.state_dict().items() if not isinstance(value, Tensor)]
    if others:
        raise ConfigError(
            "encoder",
            f"{type(encoder.module).__name__}, whose state has {others[0]}",
            "a module whose state is of tensors alone, which can be saved",
            hint="keep other things out of `get_extra_state`",
        )
    inputs = batch.features if isinstance(batch, GraphBatch) else batch.hops
    was_training = encoder.training
    encoder.eval()
    try:
        logits: Any = encoder(batch)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise ConfigError(
            "encoder",
            type(encoder.module).__name__,
            f"a module that takes inputs of shape {tuple(inputs.shape)}, which it cannot: {error}",
            hint="a function is told the sizes: `encoder=lambda shape: Net(shape.features, ...)`",
        ) from error
    finally:
        encoder.train(was_training)
    expected = (len(batch), classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ConfigError(
            "encoder",
            f"{type(encoder.module).__name__}, which gives {found} for {len(batch)} nodes",
            f"logits of shape {expected}: a row per node and a column per class",
        )

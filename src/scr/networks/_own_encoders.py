"""Two encoders around modules of the user's own, told apart by what their `forward` takes.

An `OwnHopEncoder` serves

    forward(hops)           hops of some rows, a tensor of shape (rows, hops, features)
    forward(batch)          the same as a `HopBatch`, which has propagated labels too

and an `OwnGraphEncoder`

    forward(x, edge_index)  nodes and edges, as layers of torch_geometric take them; `edge_weight`
                            is given as well where it is asked for and the graph has weights
"""

from __future__ import annotations

import copy
import inspect
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from scr.config import Count, Settings, check
from scr.encoders import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.errors import ConfigError
from scr.networks._base import GraphEncoder, check_neighbors
from scr.networks._batch import GraphBatch

USUAL_DEPTH = 2
MOST_VIEWS = 8
"""Passes after which a module has no noise: two may be equal by chance where little is dropped."""
SIZES_HINT = "a function is told the sizes: `encoder=lambda shape: Net(shape.features, ...)`"
EDGES_HINT = "a module that is to be given nodes and edges has `forward(x, edge_index)`"
FAILURES = (RuntimeError, ValueError, TypeError, IndexError, AttributeError)
"""What a module raises that is given something else than it expects."""


@dataclass(frozen=True, kw_only=True)
class OwnHopConfig(Settings):
    """A module that reads hops has all its settings itself."""

    section: ClassVar[str] = "encoder"
    unknown_hint: ClassVar[str] = (
        "a module that reads hops has all its settings itself; `layers` and `neighbors` are for "
        "one with forward(x, edge_index)"
    )


@dataclass(frozen=True, kw_only=True)
class OwnGraphConfig(Settings):
    """How a module that reads edges is served."""

    section: ClassVar[str] = "encoder"

    layers: Count = USUAL_DEPTH
    """How many hops away from a node the module looks: layers of neighbors that a batch needs."""
    neighbors: tuple[int, ...] | None = None
    """Neighbors drawn for each node, layer by layer from the seeds outwards, -1 for all of them. An
    empty list: the whole graph in every step. None: the whole graph if it is small, or 10 each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_neighbors(self.neighbors, self.layers)


class OwnHopEncoder(Encoder):
    """Around a module that reads hops."""

    name = "own-hops"
    config_class = cast("type[EncoderConfig]", OwnHopConfig)

    def __init__(self, shape: ProblemShape, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.reads = what_is_read(module)
        if self.reads == "edges":
            raise _refusal(module, "a module that reads hops, as in the training")
        if self.reads == "hops":
            _refuse_labels(shape)

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes)."""
        return cast(Tensor, self.module(batch if self.reads == "batch" else batch.hops))


class OwnGraphEncoder(GraphEncoder):
    """Around a module that reads nodes and edges, all layers of which are one to us."""

    name = "own-graph"
    config_class = cast("type[EncoderConfig]", OwnGraphConfig)
    aggregation = "none"

    def __init__(self, shape: ProblemShape, module: nn.Module) -> None:
        super().__init__()
        if what_is_read(module) != "edges":
            raise _refusal(module, "a module that reads edges, as in the training")
        _refuse_labels(shape)
        self.module = module
        self.classes = shape.classes
        self.weighs_edges = "edge_weight" in _arguments(module)[0]

    def every_row(self, batch: GraphBatch) -> Tensor:
        """Logits of all nodes of a batch."""
        assert isinstance(batch.features, Tensor)
        weights = batch.layers[0].weights
        named = {}
        if self.weighs_edges and weights is not None:
            named["edge_weight"] = torch.tensor(weights).to(batch.features)
        logits: Any = self.module(batch.features, batch.edge_index, **named)
        rows = len(batch.features)
        if not isinstance(logits, Tensor) or logits.shape[:1] != (rows,):
            raise _no_logits(self.module, logits, (rows, self.classes))
        return logits

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits of shape (seeds, classes)."""
        return self.every_row(batch).index_select(0, batch.seeds)


OWN: dict[str, type[OwnHopEncoder | OwnGraphEncoder]] = {
    each.name: each for each in (OwnHopEncoder, OwnGraphEncoder)
}


def _refusal(
    module: nn.Module, expected: str, *, found: str = "", hint: str | None = None
) -> ConfigError:
    return ConfigError("encoder", type(module).__name__ + found, expected, hint=hint)


def _refuse_labels(shape: ProblemShape) -> None:
    check(shape.label_hops == 0, "propagation.label_hops", shape.label_hops,
          "0 for a module that is not given propagated labels")  # fmt: skip


def what_is_read(module: nn.Module) -> Literal["hops", "batch", "edges"]:
    """What a module's `forward` takes; anything that cannot be given is refused."""
    _refuse_caches(module)
    if isinstance(module, Encoder):
        if module.batch_kind is HopBatch:
            return "batch"
        raise _refusal(module, f"its name, `{module.name}`")
    names, required = _arguments(module)
    if names[1:2] == ["edge_index"] and len(required) <= 2:
        return "edges"
    if names and len(required) <= 1:
        annotated = _type_hints(module).get(names[0]) is HopBatch
        return "batch" if annotated or names[0] == "batch" else "hops"
    raise _refusal(
        module,
        "a module with forward(hops), forward(batch) or forward(x, edge_index)",
        found=f".forward({', '.join(names)})",
        hint="wrap it in a module that takes one of these",
    )


def _arguments(module: nn.Module) -> tuple[list[str], list[str]]:
    """Names of the positional arguments of `forward`, and of those without a default."""
    described = getattr(getattr(module, "signature", None), "param_dict", None)
    if isinstance(described, dict):  # torch_geometric.nn.Sequential takes *args, and says which
        return [*described], [*described]
    arguments = [
        each
        for each in inspect.signature(module.forward).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    required = [each.name for each in arguments if each.default is each.empty]
    return [each.name for each in arguments], required


def _type_hints(module: nn.Module) -> dict[str, Any]:
    try:
        return typing.get_type_hints(module.forward)
    except (NameError, TypeError):  # an annotation that only a type checker can read
        return {}


def depth(module: nn.Module) -> int:
    """How many layers of torch_geometric a module has, each of which reads the edges once."""
    return sum(_reads_edges(layer) for layer in module.modules())


def _reads_edges(layer: nn.Module) -> bool:
    return any(base.__name__ == "MessagePassing" for base in type(layer).__mro__)


def _refuse_caches(module: nn.Module) -> None:
    """Refuse layers that keep the edges of their first call: batches and graphs change."""
    for name, layer in module.named_modules():
        if _reads_edges(layer) and getattr(layer, "cached", False):
            at = f"`{name}`, " if name else ""
            raise _refusal(
                module,
                "`cached=False`, since batches and graphs change",
                found=f", with {at}{type(layer).__name__}(cached=True)",
                hint="a layer with a cache computes with the edges of its first call for ever",
            )


@torch.no_grad()
def try_out(encoder: Encoder, batch: HopBatch | GraphBatch, classes: int) -> None:
    """See, before training, that a module takes what it will be given and gives logits.

    Layers that find out their widths do so here.

    Args:
        encoder: Around a module of one's own.
        batch: Some rows, on the device of the encoder.
        classes: How many there are.
    """
    module = cast(nn.Module, encoder.module)
    others = [name for name, value in encoder.state_dict().items() if not isinstance(value, Tensor)]
    if others:
        raise _refusal(
            module,
            "a module whose state is of tensors alone, which can be saved",
            found=f", whose state has {others[0]}",
            hint="keep other things out of `get_extra_state`",
        )
    was_training = encoder.training
    encoder.eval()
    try:
        logits: Any = encoder(batch)
    except FAILURES as error:
        raise _cannot_take(module, batch, error) from error
    finally:
        encoder.train(was_training)
    expected = (len(batch), classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        raise _no_logits(module, logits, expected)


def _cannot_take(module: nn.Module, batch: HopBatch | GraphBatch, error: Exception) -> ConfigError:
    """The error for a module that fails with what it is given."""
    inputs = batch.features if isinstance(batch, GraphBatch) else batch.hops
    # A module that expects a graph object, as `data`, asks a tensor for what it does not have.
    wants_graph = isinstance(batch, HopBatch) and (
        isinstance(error, AttributeError) or _arguments(module)[0][:1] == ["data"]
    )
    return _refusal(
        module,
        f"a module that takes inputs of shape {tuple(inputs.shape)}, which it cannot: {error}",
        hint=EDGES_HINT if wants_graph else SIZES_HINT,
    )


def _no_logits(module: nn.Module, given: object, expected: tuple[int, int]) -> ConfigError:
    """The error for a module that gives something else than a row of logits per node."""
    if isinstance(given, Tensor):
        found = str(tuple(given.shape))
    else:
        size = f" of {len(given)}" if isinstance(given, (tuple, list, dict)) else ""
        found = f"a {type(given).__name__}{size}"
    return _refusal(
        module,
        f"logits of shape {expected}: a row per node and a column per class",
        found=f", which gives {found} for {expected[0]} nodes",
        hint=None if isinstance(given, Tensor) else "return the logits alone, as one tensor",
    )


@torch.no_grad()
def views_are_equal(encoder: Encoder, batch: HopBatch | GraphBatch) -> bool:
    """Whether a module gives the same in training mode however often it is asked.

    Encoder and random state are left as they were.

    Args:
        encoder: Around a module of one's own that has been tried out.
        batch: Some rows, on the device of the encoder.
    """
    try:
        twin = copy.deepcopy(encoder).train()
        with torch.random.fork_rng(devices=_devices(encoder)):
            first = twin(batch)
            return all(torch.equal(twin(batch), first) for _ in range(MOST_VIEWS - 1))
    except FAILURES:  # training itself will tell
        return False


def _devices(module: nn.Module) -> list[torch.device]:
    return [*{each.device for each in module.parameters() if each.device.type == "cuda"}]

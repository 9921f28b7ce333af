"""Modules of the user's own as encoders, told apart by what their `forward` takes.

An `OwnHopEncoder` serves

    forward(hops)           hops of some rows, a tensor of shape (rows, hops, features)
    forward(batch)          the same as a `HopBatch`, which has propagated labels too

and an `OwnGraphEncoder`

    forward(x, edge_index)  nodes and edges, as layers of torch_geometric take them; `edge_weight`
                            is given as well where it is asked for and the graph has weights

A module is taken with the weights that it has; a function from a `ProblemShape` to a module makes
fresh ones for every seed and stage. No file ever names the code of either.
"""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, cast

import torch
from torch import Tensor, nn

from scr.config import Settings, check
from scr.encoders import Encoder, EncoderConfig, HopBatch, ProblemShape, evaluating
from scr.errors import ConfigError
from scr.networks._base import GraphBatch, GraphEncoder, NeighborSettings

MOST_VIEWS = 8
"""Passes after which a module has no noise: two may be equal by chance where little is dropped."""
SIZES_HINT = "a function receives the sizes: `encoder=lambda shape: Net(shape.features, ...)`"
EDGES_HINT = "a module that is to be given nodes and edges has `forward(x, edge_index)`"
FAILURES = (RuntimeError, ValueError, TypeError, IndexError, AttributeError)
"""What a module raises that is given something else than it expects."""


def separate_module(encoder: Any) -> tuple[dict[str, Any], OwnModule | None]:
    """Settings and, if there is one, the user's own module.

    Args:
        encoder: A name, a table of settings (with a module as `module`), a module or a function.
    """
    if encoder is None or isinstance(encoder, str):
        return ({} if encoder is None else {"name": encoder}), None
    if not isinstance(encoder, Mapping):
        expected = "a name, a table of settings, a torch module, or a function for one"
        check(callable(encoder), "encoder", encoder, expected)
        return {}, OwnModule(encoder)
    settings = dict(encoder)
    module = settings.pop("module", None)
    for name, value in settings.items():
        if callable(value):  # as modules are, and no setting is
            expected = "a setting; a module is given as `module`"
            hint = "did you mean `module`?"
            raise ConfigError(f"encoder.{name}", type(value).__name__, expected, hint=hint)
    if module is None:
        return settings, None
    if not callable(module):
        given = module if isinstance(module, str) else type(module).__name__
        hint = "an encoder of `scr` is given by its `name`"
        expected = "a torch module, or a function for one"
        raise ConfigError("encoder.module", given, expected, hint=hint)
    return settings, OwnModule(module)


@dataclass(frozen=True, eq=False)
class OwnModule:
    """What a user gave: a module, or a function that makes one for the sizes of the data."""

    given: nn.Module | Callable[[ProblemShape], nn.Module]

    def __post_init__(self) -> None:
        if isinstance(self.given, nn.Module):
            return
        try:
            inspect.signature(self.given).bind("sizes")
        except ValueError:  # of something built in, which has no signature
            return
        except TypeError:
            self._refuse_function()

    def _refuse_function(self, error: Exception | None = None) -> NoReturn:
        name = getattr(self.given, "__name__", type(self.given).__name__)
        kind = "class" if inspect.isclass(self.given) else "function"
        reason = str(error).partition("\n")[0]
        cannot = "" if error is None else f", which cannot be made of the sizes: {reason}"
        expected = "a module, or a function of one argument (the sizes)"
        raise ConfigError(
            "encoder", f"the {kind} {name}{cannot}", expected, hint=SIZES_HINT
        ) from error

    def build(self, shape: ProblemShape) -> nn.Module:
        """A module that may be trained: a copy, or a new one."""
        if isinstance(self.given, nn.Module):
            return copy.deepcopy(self.given)
        try:
            module: Any = self.given(shape)
        except TypeError as error:
            if not inspect.isclass(self.given):  # an error within a function is for its author
                raise
            self._refuse_function(error)
        is_module, kind = isinstance(module, nn.Module), type(module).__name__
        check(is_module, "encoder", kind, "a function that returns a torch module")
        return cast(nn.Module, module)

    def settings(self, shape: ProblemShape) -> dict[str, Any]:
        """The section `encoder` of a recipe, as far as a module of any sizes tells."""
        with torch.random.fork_rng(devices=[]):
            module = self.given if isinstance(self.given, nn.Module) else self.build(shape)
        if what_is_read(module) != "edges":
            return {"name": OwnHopEncoder.name}
        return {"name": OwnGraphEncoder.name, "layers": depth(module) or NeighborSettings.layers}


@dataclass(frozen=True, kw_only=True)
class OwnHopConfig(Settings):
    """A module that reads hops has all its settings itself."""

    section: ClassVar[str] = "encoder"
    unknown_hint: ClassVar[str] = (
        "a module that reads hops has all its settings itself; `layers` and `neighbors` are for "
        "one with forward(x, edge_index)"
    )


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
    config_class = cast("type[EncoderConfig]", NeighborSettings)
    aggregation = "none"

    def __init__(self, shape: ProblemShape, module: nn.Module) -> None:
        super().__init__()
        if what_is_read(module) != "edges":
            raise _refusal(module, "a module that reads edges, as in the training")
        _refuse_labels(shape)
        self.module, self.classes = module, shape.classes
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


def what_is_read(module: nn.Module) -> Literal["hops", "batch", "edges"]:
    """What a module's `forward` takes; anything that cannot be given is refused."""
    for name, layer in module.named_modules():
        if _reads_edges(layer) and getattr(layer, "cached", False):
            at = f"`{name}`, " if name else ""
            raise _refusal(
                module,
                "`cached=False`, since batches and graphs change",
                found=f", with {at}{type(layer).__name__}(cached=True)",
                hint="a layer with a cache computes with the edges of its first call for ever",
            )
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
        module, "a module with forward(hops), forward(batch) or forward(x, edge_index)",
        found=f".forward({', '.join(names)})", hint="wrap it in a module that takes one of these",
    )  # fmt: skip


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


def try_out(encoder: Encoder, batch: HopBatch | GraphBatch, classes: int) -> None:
    """Check, before training, that a module takes what it will be given and gives logits.

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
            module, "a module whose state is of tensors alone, which can be saved",
            found=f", whose state has {others[0]}",
            hint="keep other things out of `get_extra_state`",
        )  # fmt: skip
    try:
        with evaluating(encoder):
            logits: Any = encoder(batch)
    except FAILURES as error:
        inputs = batch.features if isinstance(batch, GraphBatch) else batch.hops
        # A module that expects a graph object, as `data`, asks a tensor for what it does not have.
        wants_graph = isinstance(batch, HopBatch) and (
            isinstance(error, AttributeError) or _arguments(module)[0][:1] == ["data"]
        )
        raise _refusal(
            module,
            f"a module that takes inputs of shape {tuple(inputs.shape)}, which it cannot: {error}",
            hint=EDGES_HINT if wants_graph else SIZES_HINT,
        ) from error
    expected = (len(batch), classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        raise _no_logits(module, logits, expected)


@torch.no_grad()
def views_are_equal(encoder: Encoder, batch: HopBatch | GraphBatch) -> bool:
    """Whether a module gives the same in training mode however often it is asked.

    Encoder and random state are left as they were.

    Args:
        encoder: Around a module of one's own that has been tried out.
        batch: Some rows, on the device of the encoder.
    """
    devices = {each.device for each in encoder.parameters() if each.device.type == "cuda"}
    try:
        twin = copy.deepcopy(encoder).train()
        with torch.random.fork_rng(devices=[*devices]):
            first = twin(batch)
            return all(torch.equal(twin(batch), first) for _ in range(MOST_VIEWS - 1))
    except FAILURES:  # training itself will tell
        return False


def _refuse_labels(shape: ProblemShape) -> None:
    check(shape.label_hops == 0, "propagation.label_hops", shape.label_hops,
          "0 for a module that is not given propagated labels")  # fmt: skip


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


def _refusal(
    module: nn.Module, expected: str, *, found: str = "", hint: str | None = None
) -> ConfigError:
    return ConfigError("encoder", type(module).__name__ + found, expected, hint=hint)

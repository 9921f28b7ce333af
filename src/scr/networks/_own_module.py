"""Modules of the user's own as encoders: what a user may give, and the settings that follow.

A module is taken with the weights that it has; a function from a `ProblemShape` to a module makes
fresh ones for every seed and stage. No file ever names the code of either.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import nn

from scr.encoders import ProblemShape
from scr.errors import ConfigError
from scr.networks._own_encoders import (
    SIZES_HINT,
    USUAL_DEPTH,
    OwnGraphEncoder,
    OwnHopEncoder,
    depth,
    what_is_read,
)


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
        said = str(error).partition("\n")[0]
        cannot = "" if error is None else f", which cannot be made of the sizes: {said}"
        raise ConfigError(
            "encoder",
            f"the {kind} {name}{cannot}",
            "a module, or a function of one argument (the sizes)",
            hint=SIZES_HINT,
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
        if not isinstance(module, nn.Module):
            found = type(module).__name__
            raise ConfigError("encoder", found, "a function that returns a torch module")
        return module

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
        return _separate_table(dict(encoder))
    if callable(encoder):
        return {}, OwnModule(encoder)
    raise ConfigError(
        "encoder", encoder, "a name, a table of settings, a torch module, or a function for one"
    )


def _separate_table(settings: dict[str, Any]) -> tuple[dict[str, Any], OwnModule | None]:
    module = settings.pop("module", None)
    for name, value in settings.items():
        if callable(value):  # as modules are, and no setting is
            raise ConfigError(
                f"encoder.{name}",
                type(value).__name__,
                "a setting; a module is given as `module`",
                hint="did you mean `module`?",
            )
    if module is None:
        return settings, None
    if not callable(module):
        raise ConfigError(
            "encoder.module",
            module if isinstance(module, str) else type(module).__name__,
            "a torch module, or a function for one",
            hint="an encoder of `scr` is given by its `name`",
        )
    return settings, OwnModule(module)

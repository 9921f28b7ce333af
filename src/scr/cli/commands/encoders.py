"""`scr encoders`: their names, and the settings of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scr import networks
from scr.cli import _completion
from scr.cli._ending import Report
from scr.cli._methods import (
    described,
    headline,
    paper,
    print_methods,
    print_settings,
    words_of,
)
from scr.config import list_settings

if TYPE_CHECKING:
    from scr.encoders import Encoder


def encoders(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show the settings of this encoder.",
            autocompletion=_completion.one_of(_completion.ENCODERS),
        ),
    ] = None,
) -> Report:
    """List the encoders, or the settings of one."""
    if name is None:
        rows = [
            (each, does(code), reads(code), paper(words_of(code)))
            for each, code in networks.ENCODERS.items()
        ]
        hint = "scr encoders NAME lists the settings of an encoder."
        print_methods(("name", "what it is", "reads", "paper"), rows, hint)
        keys = ("name", "about", "reads", "paper")
        return {"encoders": [dict(zip(keys, row, strict=True)) for row in rows]}
    code = networks.encoder_class(name)
    about = f"{name}: {does(code)}; reads {reads(code)}. {paper(words_of(code))}"
    settings = list_settings(code.config_class)
    print_settings(about, settings, "encoder")
    return {"name": name, "about": about.rstrip(), "settings": described(settings)}


def does(code: type[Encoder]) -> str:
    """What an encoder is, in a line."""
    if code.mixes_subsets:
        return (code.__doc__ or "").replace("`", "").removesuffix(".")
    return headline(words_of(code))


def reads(code: type[Encoder]) -> str:
    """What an encoder gets of the graph."""
    if code in networks.COUPLED:
        return "the graph"
    if code.mixes_subsets:
        return "hops over relations"
    fixed = code.fixed_mixture(code.config_class(), 2)
    if fixed is None:
        return "hops"
    return "own features" if fixed[0] == 1 else "hops, mixed"

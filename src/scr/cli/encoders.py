"""`scr encoders`: their names, and the settings of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scr.cli._console import console, print_wide
from scr.cli._methods import WIDTH, headline, method_table, paper, settings_table, words_of

if TYPE_CHECKING:
    from scr.encoders import Encoder


def encoders(
    name: Annotated[str | None, typer.Argument(help="Show the settings of this encoder.")] = None,
) -> None:
    """List the encoders, or the settings of one."""
    from scr.config import list_settings
    from scr.networks import ENCODERS, encoder_class

    if name is None:
        rows = [
            (each, does(code), reads(code), paper(words_of(code)))
            for each, code in ENCODERS.items()
        ]
        print_wide(method_table(("name", "what it is", "reads", "paper"), rows), WIDTH)
        console.print("scr encoders NAME lists the settings of an encoder.")
        return
    code = encoder_class(name)
    about = f"{name}: {does(code)}; reads {reads(code)}."
    cited = paper(words_of(code))
    console.print(f"{about} {cited}".rstrip(), soft_wrap=True)
    print_wide(settings_table(list_settings(code.config_class)), WIDTH)
    console.print(
        "Change one with --set encoder.NAME=VALUE. A preset may have other values than these "
        "defaults; run.json records those of a run."
    )


def does(code: type[Encoder]) -> str:
    """What an encoder is, in a line."""
    if code.mixes_subsets:
        return (code.__doc__ or "").replace("`", "").removesuffix(".")
    return headline(words_of(code))


def reads(code: type[Encoder]) -> str:
    """What an encoder gets of the graph."""
    from scr.networks import COUPLED

    if code in COUPLED:
        return "the graph"
    if code.mixes_subsets:
        return "hops over relations"
    fixed = code.fixed_mixture(code.config_class(), 2)
    if fixed is None:
        return "hops"
    return "own features" if fixed[0] == 1 else "hops, mixed"

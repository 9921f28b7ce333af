"""`scr regularizers`: their names, and the settings that each of them reads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from scr.cli._methods import paper, print_methods, print_settings, shown, words_of

if TYPE_CHECKING:
    from scr.config import Setting

SCR_PAPER = "Zhang et al. 2021, arXiv:2112.04319"


def regularizers(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings that this regularizer reads.")
    ] = None,
) -> None:
    """List the regularizers, or the settings that one reads."""
    from scr.consistency import REGULARIZERS
    from scr.report import explanation
    from scr.training import check_regularizer

    if name is None:
        rows = [
            (each, explanation(each), ", ".join(own_values(each)), paper_of(each))
            for each in REGULARIZERS
        ]
        hint = "scr regularizers NAME lists the settings that a regularizer reads."
        print_methods(("name", "what it asks for", "defaults", "paper"), rows, hint)
        return
    check_regularizer(name)
    about = f"{name}: {explanation(name)}. {paper_of(name)}"
    print_settings(about, read_settings(name), "consistency")


def read_settings(regularizer: str) -> list[Setting]:
    """The settings that a regularizer reads, with the defaults that it has."""
    from scr.config import list_settings
    from scr.consistency import ConsistencyConfig, defaults_of, settings_of

    own, read = defaults_of(regularizer), settings_of(regularizer)
    return [
        dataclasses.replace(each, default=own.get(each.name, each.default))
        for each in list_settings(ConsistencyConfig)
        if each.name in read
    ]


def own_values(regularizer: str) -> list[str]:
    """Defaults that a regularizer has of its own, of settings that it reads."""
    from scr.consistency import defaults_of

    own = defaults_of(regularizer)
    return [
        f"{each.name}={shown(each.default)}"
        for each in read_settings(regularizer)
        if each.name in own
    ]


def paper_of(regularizer: str) -> str:
    """Who, when and where; empty where no regularizer is used."""
    from scr.consistency import UNLABELED_LOSSES, ConsistencyLoss

    code = UNLABELED_LOSSES.get(regularizer)
    if code is ConsistencyLoss:
        return SCR_PAPER
    return "" if code is None else paper(words_of(code))

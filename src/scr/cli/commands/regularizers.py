"""`scr regularizers`: their names, and the settings that each of them reads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from scr import consistency, report, training
from scr.cli import _completion
from scr.cli._ending import Report
from scr.cli._methods import (
    described,
    paper,
    print_methods,
    print_settings,
    shown,
    words_of,
)
from scr.config import list_settings

if TYPE_CHECKING:
    from scr.config import Setting

SCR_PAPER = "Zhang et al. 2021, arXiv:2112.04319"


def regularizers(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show the settings that this regularizer reads.",
            autocompletion=_completion.one_of(_completion.REGULARIZERS),
        ),
    ] = None,
) -> Report:
    """List the regularizers, or the settings that one reads."""
    if name is None:
        rows = [
            (each, report.explanation(each), ", ".join(own_values(each)), paper_of(each))
            for each in consistency.REGULARIZERS
        ]
        hint = "scr regularizers NAME lists the settings that a regularizer reads."
        print_methods(("name", "what it asks for", "defaults", "paper"), rows, hint)
        keys = ("name", "about", "defaults", "paper")
        return {"regularizers": [dict(zip(keys, row, strict=True)) for row in rows]}
    training.check_regularizer(name)
    about = f"{name}: {report.explanation(name)}. {paper_of(name)}"
    settings = read_settings(name)
    print_settings(about, settings, "consistency")
    return {"name": name, "about": about.rstrip(), "settings": described(settings)}


def read_settings(regularizer: str) -> list[Setting]:
    """The settings that a regularizer reads, with the defaults that it has."""
    own, read = consistency.defaults_of(regularizer), consistency.settings_of(regularizer)
    return [
        dataclasses.replace(each, default=own.get(each.name, each.default))
        for each in list_settings(consistency.ConsistencyConfig)
        if each.name in read
    ]


def own_values(regularizer: str) -> list[str]:
    """Defaults that a regularizer has of its own, of settings that it reads."""
    own = consistency.defaults_of(regularizer)
    return [
        f"{each.name}={shown(each.default)}"
        for each in read_settings(regularizer)
        if each.name in own
    ]


def paper_of(regularizer: str) -> str:
    """Who, when and where; empty where no regularizer is used."""
    code = consistency.UNLABELED_LOSSES.get(regularizer)
    if code is consistency.ConsistencyLoss:
        return SCR_PAPER
    return "" if code is None else paper(words_of(code))

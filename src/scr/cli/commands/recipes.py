"""`scr recipes`: the rows of the paper's tables, and the settings of each."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from scr.cli import _completion
from scr.cli._console import console, print_wide, table
from scr.cli._ending import Report
from scr.errors import SourceError

if TYPE_CHECKING:
    from scr.recipes import PublishedRecipe

WIDTH = 139
"""Columns that the table needs to have every recipe on one line."""


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Print this recipe's file, to be redirected and edited.",
            autocompletion=_completion.recipes,
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Only this data set, such as ogbn-mag or mag.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Only this encoder.")] = None,
    method: Annotated[
        str | None, typer.Option(help="Only base, rlu, sle, scr, scr-m or rlu-scr.")
    ] = None,
) -> Report:
    """List the published recipes, or print one."""
    from scr.recipes import read_recipe, recipe_names

    if name is not None:
        recipe = read_recipe(name)
        typer.echo(recipe.text(), nl=False)
        return {"name": name, "text": recipe.text()}
    every = [read_recipe(each) for each in recipe_names()]
    kept = [
        recipe
        for recipe in every
        if fits(data, recipe.dataset, recipe.dataset.removeprefix("ogbn-"))
        and fits(encoder, recipe.encoder)
        and fits(method, recipe.method)
    ]
    if not kept:
        fields = {"--data": "dataset", "--encoder": "encoder", "--method": "method"}
        choices = "; ".join(
            f"{name} {', '.join(sorted({getattr(recipe, field) for recipe in every}))}"
            for name, field in fields.items()
        )
        raise SourceError(f"No recipe fits these filters; there are: {choices}")
    print_wide(recipes_table(kept), WIDTH)
    console.print(
        "scr recipes NAME prints a recipe, scr reproduce NAME runs it beside the published number."
    )
    return {
        "recipes": [
            {"name": each.name, "dataset": each.dataset, "method": each.method,
             "encoder": each.encoder, "published": asdict(each.published)}
            for each in kept
        ]
    }  # fmt: skip


def fits(wanted: str | None, *names: str) -> bool:
    """Whether a filter lets a recipe through; case does not matter."""
    return wanted is None or wanted.lower() in {name.lower() for name in names}


def recipes_table(kept: list[PublishedRecipe]) -> Table:
    """One line per recipe, a gap between tables of the paper."""
    headings = ("name", "data set", "method", "encoder", "valid", "test", "can be run")
    lined = table(headings, numbers=("valid", "test"), padding=(0, 1, 0, 0))
    for recipe, following in zip(kept, [*kept[1:], None], strict=True):
        row = recipe.published
        available = "yes" if recipe.features is None else "with --features"
        lined.add_row(
            recipe.name, recipe.dataset, recipe.method + (" + C&S" if recipe.smoothed else ""),
            recipe.encoder, f"{row.valid_accuracy:.2f}±{row.valid_spread:.2f}",
            f"{row.test_accuracy:.2f}±{row.test_spread:.2f}", available,
            end_section=following is not None and following.published.table != row.table,
        )  # fmt: skip
    return lined

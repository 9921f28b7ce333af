"""The rows of the paper's tables: what was run, with which settings, and what came out.

Each row of Tables 2 to 5 of Zhang et al. 2021, "SCR: Training Graph Neural Networks with
Consistency Regularization" (arXiv:2112.04319), is a TOML file beside this one. Besides the sections
of a recipe it holds `dataset`, `features` (a file that the user must bring) and `[published]`, the
numbers as printed. Comments say where the paper and the official code disagree or are silent.

Rows with SCR that the official code has a command for exist a second time, `-as-code`: with that
command's settings, and the same published numbers. Two more are in the code's README alone.

Files are named `AUTHOR-YEAR-METHOD-ENCODER[-giant][-cs]-DATA[-as-code]`, after who published it:
`zhang-2021-scr-m-sagn-giant-cs-products` is SCR-m with SAGN on GIANT features, corrected and
smoothed, on ogbn-products. `zhang-2021` is the SCR paper, `zhang-2022` is GAMLP's. The method is
`base`, `rlu`, `sle`, `scr`, `scr-m` or `rlu-scr`.

Reads the TOML files, makes a `PublishedRecipe` of each.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scr.config import build
from scr.errors import SourceError

ABOUT = ("dataset", "features", "published")
"""Keys of a file that describe the run and are not settings of it."""
README = "README"
"""Stands for a table of the paper where a row is in the official code's README alone."""
README_TITLE = "README of the official code"
AS_CODE = "-as-code"
"""Ends the name of a recipe that follows the official code where the paper says something else."""
FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Published:
    """A row of the paper, accuracies in percent as printed."""

    table: str
    """Number of the paper's table, or `README` for a row of the official code's alone."""
    line: int
    """Which row of the table, from 1."""
    row: str
    """The row's first cells as printed: method | architecture, in Table 2 | C&S."""
    valid_accuracy: float
    valid_spread: float
    test_accuracy: float
    test_spread: float
    runs: int
    source: str

    @property
    def where(self) -> str:
        """Where the row is printed, in words."""
        return README_TITLE if self.table == README else f"Table {self.table}"


@dataclass(frozen=True)
class PublishedRecipe:
    """One row with the settings that it was made with."""

    name: str
    dataset: str
    features: str | None
    """The file of features that the run needs instead of the data set's own; none: its own."""
    published: Published
    tables: dict[str, Any]
    """The recipe's own sections, a layer to be laid over nothing."""
    path: Path

    @property
    def encoder(self) -> str:
        """Name of the encoder."""
        return str(self.tables["encoder"]["name"])

    @property
    def regularizer(self) -> str:
        """Name of the regularizer."""
        return str(self.tables["regularizer"])

    @property
    def method(self) -> str:
        """What the row names: `base` for supervised training alone, else such as `rlu-scr`."""
        name = self.published.row.split(" | ")[0]
        return "base" if name == "-" else name.lower().replace("+", "-")

    @property
    def as_code(self) -> bool:
        """Whether settings are those of the official code where it differs from the paper."""
        return self.name.endswith(AS_CODE)

    @property
    def smoothed(self) -> bool:
        """Whether the published numbers are those after Correct and Smooth."""
        return "postprocess" in self.tables

    def text(self) -> str:
        """The file itself, with its comments."""
        return self.path.read_text(encoding="utf-8")


@cache
def recipe_names() -> tuple[str, ...]:
    """Names of all recipes, in the order of tables and rows; as code after as printed."""
    recipes = [_read(path) for path in FOLDER.glob("*.toml")]
    recipes.sort(key=lambda each: (each.published.table, each.published.line, each.as_code))
    return tuple(recipe.name for recipe in recipes)


def read_recipe(name: str) -> PublishedRecipe:
    """The recipe of a name.

    Raises:
        SourceError: There is none; the message names those that are spelled alike.
    """
    names = recipe_names()
    if name not in names:
        close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(f'`{each}`' for each in close)}?" if close else None
        raise SourceError(
            f"There is no recipe `{name}`; expected one of the {len(names)} names that "
            "`scr recipes` lists",
            hint=hint,
        )
    return _read(FOLDER / f"{name}.toml")


def settings_only(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a recipe, without what a catalog file says about the run."""
    return {key: value for key, value in tables.items() if key not in ABOUT}


def _read(path: Path) -> PublishedRecipe:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return PublishedRecipe(
        name=path.stem,
        dataset=content["dataset"],
        features=content.get("features"),
        published=build(Published, content["published"], section="published"),
        tables=settings_only(content),
        path=path,
    )

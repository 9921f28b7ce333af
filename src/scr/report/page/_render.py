"""Fill the templates of the pages; every text is escaped, only `Markup` stands as it is.

Templates draw their own charts, so that what a chart is called and how it is described stands where
it is shown.
"""

from __future__ import annotations

import base64
import functools
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape
from numpy.typing import NDArray

from scr.errors import RunError
from scr.metrics import ACCURACY
from scr.report import _formatting as formatting
from scr.report import charts
from scr.report._conclusion import marked_regularizer
from scr.report._explanation import (
    SPLITS,
    columns,
    drops_of,
    explanation_sentences,
    frequent_classes,
    rows_differ,
    spread_ends,
    subset_drops,
    subset_names,
)
from scr.report._sensitivity import curve_sentence
from scr.storage import write_bytes


def render(template: str, **values: Any) -> str:
    """A page from a template of this package.

    Fields that a record does not have, since an older version wrote it or the run was
    interrupted, count as missing numbers and as false.
    """
    try:
        return _environment().get_template(template).render(values)
    except jinja2.UndefinedError as error:
        raise ValueError(error.message) from error


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("scr.report"), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.ChainableUndefined,
    )  # fmt: skip
    environment.globals.update(
        missing=formatting.MISSING,
        charts=charts,
        drops_of=drops_of,
        splits=SPLITS,
        accuracy=ACCURACY,
    )
    names = ("amount", "fixed", "interval", "mean_and_spread", "memory", "percent", "plain",
             "points", "seconds")  # fmt: skip
    environment.filters.update({name: getattr(formatting, name) for name in names})
    sentences = (curve_sentence, explanation_sentences, marked_regularizer)
    tables = (columns, frequent_classes, rows_differ, spread_ends, subset_drops, subset_names)
    for each in (*sentences, *tables):
        environment.filters[each.__name__] = each
    environment.filters["inline"] = _inline
    environment.filters["png"] = _png
    return environment


# matplotlib takes longer to import than most runs of `scr train` take to draw: only pages of
# experiments, whose plots are files too, use it.
def _inline(svg: bytes, name: str, description: str) -> Markup:
    """A plot that follows the theme of the page; `name` must differ between its plots."""
    from scr.report.plots import inline_svg

    return Markup(inline_svg(svg, name=name, description=escape(description)))


def _png(pixels: NDArray[Any]) -> str:
    from scr.report.plots import image_tile

    return base64.b64encode(image_tile(pixels)).decode()


def write_page(path: str | Path, html: str) -> Path:
    """Write a page whole or not at all, and create its folder if needed."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"`{target}` cannot be written: {error.strerror}") from error
    write_bytes(target, html.encode())
    return target

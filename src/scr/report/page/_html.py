"""Pieces of a page: sections, tables, cards, plots; each returns HTML with its texts escaped.

A function here takes text and returns markup (`Markup`). Only markup goes into other markup
unescaped, and the type checker keeps the two apart.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import NewType

from scr.errors import RunError
from scr.report._formatting import plain
from scr.storage import write_bytes

Markup = NewType("Markup", str)


def escape(text: object) -> Markup:
    """Any text as it should be read, never as markup."""
    return Markup(html.escape(str(text), quote=True))


def join(parts: Iterable[Markup]) -> Markup:
    """Markup after markup."""
    return Markup("\n".join(parts))


def element(tag: str, *content: Markup, **attributes: str) -> Markup:
    """One element; `class_` stands for `class`, values are escaped."""
    pairs = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
    )
    return Markup(f"<{tag}{pairs}>{''.join(content)}</{tag}>")


def paragraph(text: str, class_: str = "") -> Markup:
    """A paragraph of plain text."""
    if class_:
        return element("p", escape(text), class_=class_)
    return element("p", escape(text))


def bullets(texts: Iterable[str]) -> Markup:
    """A list of sentences."""
    return element("ul", *(element("li", escape(text)) for text in texts))


def section(title: str, *content: Markup, intro: str = "") -> Markup:
    """A part of the page with a heading, and nothing at all if it would be empty."""
    if not any(content):
        return Markup("")
    lead = [paragraph(intro, "intro")] if intro else []
    return element("section", element("h2", escape(title)), *lead, *content)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Markup]],
    *,
    numeric: Sequence[int] = (),
    row_classes: Sequence[str] = (),
) -> Markup:
    """A table that scrolls sideways on a small screen.

    Args:
        headings: Texts of the head.
        rows: Cells as markup.
        numeric: Places of the columns that are aligned to the right.
        row_classes: CSS class per row, empty for none.
    """

    def cell(tag: str, place: int, content: Markup) -> Markup:
        if place in numeric:
            return element(tag, content, class_="number")
        return element(tag, content)

    head = element("tr", *(cell("th", i, escape(text)) for i, text in enumerate(headings)))
    body = [
        element(
            "tr",
            *(cell("td", place, content) for place, content in enumerate(row)),
            class_=row_classes[index] if index < len(row_classes) else "",
        )
        for index, row in enumerate(rows)
    ]
    inner = element("table", element("thead", head), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0")


def facts(values: Mapping[str, object], class_: str = "facts") -> Markup:
    """Names with values, such as the facts of a graph or the settings of a section."""
    pairs = [
        element("div", element("dt", escape(name)), element("dd", escape(plain(value))))
        for name, value in values.items()
    ]
    return element("dl", *pairs, class_=class_) if pairs else Markup("")


def headline_numbers(numbers: Iterable[tuple[str, str, str]]) -> Markup:
    """Large numbers in a row: (name, value, unit or remark)."""
    cards = [
        element(
            "div",
            element("span", escape(name), class_="name"),
            element("span", escape(value), class_="value"),
            element("span", escape(remark), class_="remark"),
            class_="headline",
        )
        for name, value, remark in numbers
    ]
    return element("div", *cards, class_="headlines") if cards else Markup("")


def plot(svg: bytes, *, name: str, description: str, class_: str = "plot") -> Markup:
    """A plot that follows the theme of the page."""
    from scr.report.plots._style import inline_svg

    drawing = Markup(inline_svg(svg, name=name, description=escape(description)))
    return element("figure", drawing, class_=class_)


def image(png: bytes, description: str) -> Markup:
    """A small picture, kept inside the page."""
    data = base64.b64encode(png).decode("ascii")
    return Markup(f'<img src="data:image/png;base64,{data}" alt="{escape(description)}">')


def document(title: str, subtitle: str, *content: Markup, footer: Markup) -> str:
    """The whole page."""
    style = resources.files("scr.report.page").joinpath("page.css").read_text(encoding="utf-8")
    header = element("header", element("h1", escape(title)), paragraph(subtitle, "subtitle"))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="scr">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
{header}
<main>
{join(part for part in content if part)}
</main>
{element("footer", footer)}
</body>
</html>
"""


def command_block(command: object) -> Markup:
    """The command that made the page, to copy."""
    return element("pre", element("code", escape(command))) if command else Markup("")


def write_page(path: str | Path, html: str) -> Path:
    """Write a page whole or not at all, making its folder if needed."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"`{target}` cannot be written: {error.strerror}") from error
    write_bytes(target, html.encode())
    return target

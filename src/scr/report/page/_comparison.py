"""The page of a comparison, and of the demo: what helped, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from scr.report import plots
from scr.report._comparison import ComparisonRow, compare_runs
from scr.report._conclusion import cautions, differences, headline
from scr.report._examples import Example, ExampleGroup
from scr.report._explanation import explained_model
from scr.report._formatting import interval, number_or_none, percent, points, seconds
from scr.report._intervals import BETTER, WORSE
from scr.report._regularizers import explanations
from scr.report._tables import caption, marked_regularizer
from scr.report.page._explanation import explanation_section
from scr.report.page._html import (
    Markup,
    bullets,
    command_block,
    document,
    element,
    escape,
    facts,
    image,
    join,
    paragraph,
    plot,
    section,
    table,
)
from scr.report.page._run import training_plots

_READABLE = 4
_BADGES = {BETTER: "badge good", WORSE: "badge bad"}


def comparison_page(
    compare: Mapping[str, Any],
    *,
    title: str,
    graph_facts: Mapping[str, object],
    histories: plots.Histories | None = None,
    examples: Sequence[ExampleGroup] | None = None,
    shown_for: str = "",
    intro: str = "",
) -> str:
    """A comparison as one HTML page.

    Args:
        compare: Content of `compare.json`: `runs`, and optionally `rows`, `notes`, `explanation`
            and `command`.
        title: Of the page.
        graph_facts: Names and values to show about the graph.
        histories: Per model, the training history of each seed, for curves.
        examples: Nodes to show, from `choose_examples`.
        shown_for: Which runs the curves and examples are of, such as `sagn, seed 0`.
        intro: A sentence below the title.
    """
    runs: Sequence[Mapping[str, Any]] = compare.get("runs") or []
    rows = cast("Sequence[ComparisonRow]", compare.get("rows") or compare_runs(runs))
    shown = f"Shown for {shown_for}. " if shown_for else ""
    return document(
        title,
        intro or "Encoders with and without consistency regularization, on the same seeds.",
        section(
            "What it showed",
            paragraph(headline(rows), "verdict"),
            *_sentences(rows),
            *(paragraph(f"{note}.", "note") for note in compare.get("notes") or ()),
        ),
        section(
            "The numbers",
            _table(rows),
            paragraph(caption(rows), "note"),
            bullets(explanations(row["regularizer"] for row in rows)),
        ),
        _plots(runs, rows),
        _explanation(compare.get("explanation")),
        section(
            "How training went",
            training_plots(histories) if histories else Markup(""),
            intro=f"{shown}Thin lines are single seeds, thick lines their mean. The confident set "
            "is the unlabeled nodes whose pseudo label passes the threshold.",
        ),
        section(
            "Example nodes",
            *(_group(group) for group in examples or ()),
            intro=f"{shown}Each card shows a node, its true class, and what each model predicts "
            "with which confidence.",
        ),
        section("The graph", facts(graph_facts)),
        footer=command_block(compare.get("command")),
    )


def _explanation(explanation: Mapping[str, Any] | None) -> Markup:
    """What carries the predictions of the pair that is best on validation nodes."""
    if not explanation:
        return Markup("")
    of = f"{explained_model(explanation)}, the best on validation nodes"
    return explanation_section(explanation, of=f"{of} (seed {explanation.get('seed')})")


def _sentences(rows: Sequence[ComparisonRow]) -> list[Markup]:
    """Each comparison in words; folded away where there are too many to read."""
    about, doubts = differences(rows), cautions(rows)
    if len(about) <= _READABLE:
        return [bullets([*about, *doubts])]
    folded = element("summary", escape(f"All {len(about)} comparisons in words"))
    return [bullets(doubts) if doubts else Markup(""), element("details", folded, bullets(about))]


def _table(rows: Sequence[ComparisonRow]) -> Markup:
    headings = (
        "encoder", "regularizer", "seeds", "validation", "test", "difference", "balanced",
        "difference", "verdict", "time",
    )  # fmt: skip
    groups = [(row.get("graph"), row["encoder"]) for row in rows]
    classes = ["first" if i and groups[i] != groups[i - 1] else "" for i in range(len(rows))]
    return table(
        headings, [_cells(row) for row in rows], numeric=(*range(2, 8), 9), row_classes=classes
    )


def _cells(row: ComparisonRow) -> list[Markup]:
    graph = row.get("graph")
    badge = _BADGES.get(row["verdict"], "badge")
    return [
        escape(row["encoder"] if graph is None else f"{graph}: {row['encoder']}"),
        escape(marked_regularizer(row)),
        escape(row["n"]),
        _spread(row["valid_mean"], row["valid_std"]),
        _spread(row["test_mean"], row["test_std"]),
        _difference(row["difference"], row["difference_low"], row["difference_high"]),
        _spread(row["balanced_mean"], row["balanced_std"]),
        _difference(row["balanced_difference"], row["balanced_difference_low"],
                    row["balanced_difference_high"]),
        element("span", escape(row["verdict"]), class_=badge),
        escape(seconds(row["train_seconds"])),
    ]  # fmt: skip


def _spread(mean: float | None, std: float | None) -> Markup:
    if std is None:
        return escape(percent(mean))
    return join(
        [escape(percent(mean)), element("span", escape(f"± {percent(std)}"), class_="spread")]
    )


def _difference(mean: float | None, low: float | None, high: float | None) -> Markup:
    """A difference with its interval below it: beside it, the table would not fit the page."""
    return join(
        [escape(points(mean)), element("span", escape(interval(low, high)), class_="spread below")]
    )


def _plots(runs: Sequence[Mapping[str, Any]], rows: Sequence[ComparisonRow]) -> Markup:
    drawn = []
    measured = [run for run in runs if number_or_none(run.get("test_accuracy")) is not None]
    measure = "test_accuracy" if measured else "valid_accuracy"
    if runs:
        drawn.append(
            plot(plots.accuracy_dots(runs, measure=measure), name="accuracy",
                 description="Accuracy of every run, by encoder and regularizer")
        )  # fmt: skip
    if any(row["difference"] is not None for row in rows):
        drawn.append(
            plot(plots.difference_dots(rows), name="difference",
                 description="Paired differences to the base with 95% intervals")
        )  # fmt: skip
    return element("div", *drawn, class_="plots") if drawn else Markup("")


def _group(group: ExampleGroup) -> Markup:
    cards = element("div", *(_card(example) for example in group.examples), class_="examples")
    note = [paragraph(group.note, "note")] if group.note else []
    return join([element("h3", escape(group.title)), *note, cards])


def _card(example: Example) -> Markup:
    picture = []
    if example.image is not None:
        seen = f"node {example.id}" + (f", class {example.label}" if example.label else "")
        picture = [image(plots.image_tile(example.image), f"Image of {seen}")]
    truth = element("b", escape(example.label if example.label is not None else "unknown"))
    head = element(
        "div",
        element("span", Markup("is "), truth),
        element("span", escape(f"node {example.id}")),
        class_="truth",
    )
    answers = []
    for answer in example.answers:
        right = answer.prediction == example.label
        mark = "" if example.label is None else " ✓" if right else " ✗"
        state = "" if example.label is None else " right" if right else " wrong"
        answers.append(
            element(
                "div",
                element("span", escape(answer.model), class_="model"),
                element("b", escape(f"{answer.prediction}{mark}")),
                element("span", escape(f"{answer.confidence:.0%}"), class_="sure"),
                class_=f"answer{state}",
            )
        )
    return element("div", *picture, head, *answers, class_="example")

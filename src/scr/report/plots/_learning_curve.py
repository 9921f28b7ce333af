"""Learning curves: accuracy over labels per class, with and without a regularizer.

Bars are the standard error of a mean over repeats. Numbers of labels are on a logarithmic axis,
since each step usually doubles them.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from scr.report._comparison import BASE, Means
from scr.report._learning_curve import CurvePoint
from scr.report.plots import _style as theme


@theme.themed
def learning_curves(
    curve: Sequence[CurvePoint], regularizer: str, *, file_format: theme.Format = "svg"
) -> bytes:
    """One picture of both methods, from `curve_points`."""
    figure, axes = theme.panel(6.4, 3.8)
    colors = theme.series_colors([BASE, regularizer])
    sizes = [point["labels_per_class"] for point in curve]
    series: tuple[tuple[str, str, list[Means]], ...] = (
        (BASE, f"without {regularizer}", [point["base"] for point in curve]),
        (regularizer, f"with {regularizer}", [point["regularized"] for point in curve]),
    )
    for name, title, means in series:
        measured = [
            (size, each["test_mean"], (each["test_std"] or 0.0) / max(each["n"], 1) ** 0.5)
            for size, each in zip(sizes, means, strict=True)
            if each["test_mean"] is not None
        ]
        if measured:
            columns, heights, errors = zip(*measured, strict=True)
            axes.errorbar(
                columns, heights, yerr=errors, color=colors[name], marker="o", markersize=4.5,
                capsize=2.5, elinewidth=1.1, label=title,
                linestyle=theme.DASHES if name == BASE else "-",
            )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    axes.set_xlabel("training labels per class")
    axes.set_ylabel("accuracy on held-out labels")
    theme.quiet(axes, grid="x")
    axes.legend(loc="lower right")
    return theme.to_bytes(figure, file_format)

"""A fitted classifier as a notebook shows it: a data frame, a small table, pictures.

pandas and matplotlib are imported when they are asked for. Pictures are drawn into the `ax` that is
given, or into a new figure of pyplot, and their Axes are returned.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scr.errors import ConfigError, GraphError, SCRError
from scr.graph import Graph
from scr.metrics import confusion_matrix, reliability_curve
from scr.prediction._table import SPLITS, ProbabilityColumns, prediction_parts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

from scr.prediction._classes import class_array
from scr.prediction._predictor import Predictor

HISTORY = {
    "accuracy": {"valid_accuracy": "validation", "test_accuracy": "test"},
    "metric": {"valid_metric": "validation"},
    "loss": {"supervised_loss": "supervised", "consistency_loss": "consistency"},
}
"""Fields of the history that each picture shows, with their names."""
COUNTED_CLASSES = 20
"""Up to so many classes there is room for counts in a confusion matrix."""


class FittedViews:
    """Data frame, HTML and plots of a classifier that has a model."""

    _predictor: Predictor | None = None

    if TYPE_CHECKING:

        def _trained(self) -> Predictor: ...
        def _numbers(self, nodes: ArrayLike | None, graph: Graph | None) -> Any: ...
        @property
        def history_(self) -> list[dict[str, Any]]: ...

    def predictions_frame(
        self,
        nodes: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
        probabilities: str = "none",
        coverage: float | None = None,
        class_shares: str = "none",
    ) -> pd.DataFrame:
        """Predictions as a pandas DataFrame, one row per node, with the columns of the run's file.

        These are ``id``, ``prediction``, ``confidence``, ``split`` and ``label``.

        Args:
            nodes: As of `predict_proba`.
            graph: As of `predict_proba`.
            probabilities: ``"all"`` or ``"top-3"`` adds columns of probabilities.
            coverage: Adds the sets of `predict_sets` with this coverage; none: no sets.
            class_shares: As of `predict_proba`.
        """
        try:
            import pandas  # noqa: F401  (pyarrow makes the frame)
        except ImportError:
            raise SCRError(
                "A data frame needs pandas, which is not installed",
                hint="install it with `pip install pandas`",
            ) from None
        import pyarrow as pa

        predictor, columns = self._trained(), ProbabilityColumns.parse(probabilities)
        limits = None if coverage is None else predictor.set_limits(coverage, per_class=False)
        known, index, predict = predictor.for_table(
            self._numbers(nodes, graph), graph, class_shares
        )
        parts = prediction_parts(
            known, predict, nodes=index, columns=columns, set_limits=limits,
            multilabel=predictor.model.multilabel,
        )  # fmt: skip
        frame: pd.DataFrame = pa.concat_tables(parts).to_pandas()
        classes = class_array(predictor.model.class_names)
        if classes.dtype.kind == "i" and not predictor.model.multilabel:
            frame["prediction"] = frame["prediction"].astype("int64")
            frame["label"] = frame["label"].astype("Int64")  # with missing ones
        return frame

    def _repr_html_(self) -> str:
        """A small table: state, encoder, regularizer, and what validation nodes say."""
        rows = {"state": "not fitted"}
        if self._predictor is not None:
            model = self._predictor.model
            rows = {
                "state": "fitted",
                "encoder": model.recipe.encoder,
                "regularizer": model.recipe.regularizer,
                "classes": f"{len(model.class_names):,}",
                "best epoch": str(model.ending("best_epoch")),
            }
            valid = self._valid_accuracy(self._predictor)
            if valid is not None:
                rows["validation accuracy"] = f"{valid:.1%}"
        lines = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table><caption><code>{escape(repr(self))}</code></caption>{lines}</table>"

    @staticmethod
    def _valid_accuracy(predictor: Predictor) -> float | None:
        if isinstance(predictor.model.origin, Path):
            value = predictor.summary()["valid_accuracy"]
        else:
            value = predictor.model.origin.outcome.valid_accuracy
        return None if value is None else float(value)

    def plot_history(
        self, what: Literal["accuracy", "metric", "loss"] = "accuracy", *, ax: Axes | None = None
    ) -> Axes:
        """Draw how training went, epoch by epoch, with a line at the epoch that was kept.

        Args:
            what: ``"accuracy"`` of validation nodes, and of test nodes if they were watched;
                ``"metric"``, the one that counts where it is not accuracy; or ``"loss"``.
            ax: Where to draw; none: a new figure.
        """
        if what not in HISTORY:
            raise ConfigError("what", what, f"one of {', '.join(HISTORY)}")
        history = self.history_
        drawn = {
            label: [(each["epoch"], each[field]) for each in history if each.get(field) is not None]
            for field, label in HISTORY[what].items()
        }
        drawn = {label: points for label, points in drawn.items() if points}
        if not drawn:
            raise SCRError(f"The training recorded no {what}; expected one of its evaluated epochs")
        axes = _axes(ax)
        for label, points in drawn.items():
            axes.plot(*zip(*points, strict=True), label=label)
        best = int(self._trained().model.ending("best_epoch"))
        axes.axvline(best, color="gray", linestyle=":", label=f"kept: epoch {best}")
        axes.set(xlabel="epoch", ylabel=what, title=f"Training: {what}")
        axes.legend()
        return axes

    def plot_calibration(self, split: str = "test", *, ax: Axes | None = None) -> Axes:
        """Draw accuracy against confidence for the labeled nodes of a split.

        Args:
            split: ``"train"``, ``"valid"`` or ``"test"``.
            ax: Where to draw; none: a new figure.
        """
        labels, probabilities = self._measured(split)
        right = probabilities.argmax(axis=1) == labels
        curve = reliability_curve(probabilities.max(axis=1), right)
        filled = curve.nodes > 0
        axes = _axes(ax)
        axes.plot([0, 1], [0, 1], color="gray", linestyle=":", label="perfectly calibrated")
        label = f"calibration error {curve.calibration_error:.1%}"
        axes.plot(curve.confidence[filled], curve.accuracy[filled], "o-", label=label)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
        axes.set_title(f"Calibration on {split} nodes")
        axes.legend(loc="lower right")
        return axes

    def plot_confusion(self, split: str = "test", *, ax: Axes | None = None) -> Axes:
        """Draw which classes are predicted for the labeled nodes of a split, as shares of a row.

        Args:
            split: ``"train"``, ``"valid"`` or ``"test"``.
            ax: Where to draw; none: a new figure.
        """
        labels, probabilities = self._measured(split)
        names = self._trained().model.class_names
        counts = confusion_matrix(labels, probabilities.argmax(axis=1), classes=len(names))
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axes = _axes(ax)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="prediction", ylabel="label", title=f"Confusion on {split} nodes")
        if len(names) <= COUNTED_CLASSES:
            for row, column in zip(*np.nonzero(counts), strict=True):
                color = "white" if shares[row, column] > 0.5 else "black"
                text = f"{counts[row, column]:,}"
                axes.text(column, row, text, ha="center", va="center", color=color)
        return axes

    def _measured(self, split: str) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Labels and probabilities of the labeled nodes of a split."""
        predictor = self._trained()
        if split not in SPLITS:
            raise ConfigError("split", split, f"one of {', '.join(SPLITS)}")
        if predictor.model.multilabel:
            raise GraphError("The plot is of one class per node; the model has several targets")
        nodes = predictor.labeled(split)
        if not len(nodes):
            raise GraphError(f"The split `{split}` has no labeled nodes; expected at least one")
        return np.asarray(predictor.graph.labels[nodes]), predictor.probabilities(nodes, None)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]

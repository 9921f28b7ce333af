"""NodeClassifier: the Python API.

classifier = scr.NodeClassifier(encoder="gamlp", regularizer="scr-m", seed=0).fit(graph)
classifier.score("test"), classifier.predict_proba([0, 1, 2])
"""

from __future__ import annotations

import operator
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from scr import runs
from scr.compute import usable_device
from scr.encoders import ProblemShape
from scr.errors import InactiveTermWarning, RunError
from scr.graph import Graph, check_graph
from scr.networks import separate_module
from scr.prediction import (
    MOST_NODES,
    Explanation,
    Predictor,
    ProbabilityColumns,
    TrainedModel,
    read_model,
)
from scr.training import (
    AUTO_ENCODER,
    DEFAULT_REGULARIZER,
    EpochRecord,
    Prepared,
    Recipe,
    choose,
    fit,
    graph_facts,
    merge,
    resolve,
)


class NodeClassifier:
    """Trains an encoder on a graph with a few labels, and predicts every node.

    What `fit` learned has names that end in an underscore, as in scikit-learn.
    """

    def __init__(
        self,
        encoder: str
        | Mapping[str, Any]
        | nn.Module
        | Callable[[ProblemShape], nn.Module]
        | None = None,
        regularizer: str | None = None,
        *,
        seed: int = 0,
        device: str = "cpu",
        preset: str = "auto",
        recipe: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        data: Mapping[str, Any] | None = None,
        propagation: Mapping[str, Any] | None = None,
        consistency: Mapping[str, Any] | None = None,
        stages: Mapping[str, Any] | None = None,
        postprocess: Mapping[str, Any] | None = None,
        **training: Any,
    ) -> None:
        """Take settings; those left out come from a preset that is chosen by the graph.

        Args:
            encoder: ``"auto"``, the default: encoder, scale of the features and hops are chosen by
                a look at the labels (`scr.training.choose`), unless `data` or `propagation` say
                how. Or a name such as ``"gamlp"``, or ``{"name": "gamlp", "hidden": 64}``. Or a
                torch module of your own, which reads hops or `(x, edge_index)` and is trained as a
                copy, from the weights that it has; or a function that makes one, given the sizes
                of the data; or ``{"module": either, "neighbors": [10, 10]}``.
            regularizer: ``"none"``, ``"scr"`` (the default), ``"scr-m"``, or another way to use
                unlabeled nodes: ``"pi"``, ``"r-drop"``, ``"entropy"``, ``"fixmatch"``,
                ``"freematch"``, ``"softmatch"`` or ``"grand"``.
            seed: Decides initial weights, batches and dropout.
            device: Where torch computes.
            preset: A preset's name, or ``"auto"``.
            recipe: Tables as in a recipe file, or several of them, of which later ones win, also
                over the `for` tables of earlier ones; the other arguments win over all.
            data: Settings of the section `data`.
            propagation: Settings of the section `propagation`.
            consistency: Settings of the section `consistency`.
            stages: Settings of the section `stages`, such as ``{"method": "rlu"}``.
            postprocess: Settings of the section `postprocess`.
            **training: Settings of the section `training`, such as ``epochs=200``.
        """
        settings, self._own = separate_module(encoder)
        sections: dict[str, Any] = {
            "data": data,
            "propagation": propagation,
            "encoder": settings,
            "consistency": consistency,
            "training": training,
            "stages": stages,
            "postprocess": postprocess,
        }
        overrides = {name: table for name, table in sections.items() if table}
        layers = [recipe] if isinstance(recipe, Mapping) else list(recipe or ())
        self._layers = [*layers, overrides]
        self._regularizer = regularizer
        self._preset = preset
        self.seed = operator.index(seed)
        self.device = device
        self._resolved: tuple[Graph, Recipe] | None = None
        self._predictor: Predictor | None = None

    def __repr__(self) -> str:
        is_fitted = self._predictor is not None
        plain = self.recipe_.tables() if is_fitted else merge(*self._layers)
        encoder = plain.get("encoder", {}).get("name") or AUTO_ENCODER
        regularizer = plain.get("regularizer") or DEFAULT_REGULARIZER
        if not is_fitted:
            regularizer = self._regularizer or regularizer
        if self._own is not None:
            given = self.module_ if is_fitted else self._own.given
            encoder = getattr(given, "__name__", type(given).__name__)
        state = "fitted" if is_fitted else "not fitted"
        return f"NodeClassifier({encoder!r}, {regularizer!r}, seed={self.seed}, {state})"

    def resolve(self, graph: Graph) -> Recipe:
        """The recipe that `fit` would use on this graph."""
        if self._resolved is not None and self._resolved[0] is graph:
            return self._resolved[1]
        layers, choice = self._layers, choose(check_graph(graph)) if self._looks() else None
        if self._own is not None:
            columns = graph.num_features if graph.features is not None else 1
            sizes = ProblemShape(features=columns, hops=2, classes=graph.num_classes)
            own = self._own.settings(sizes)
            layers = [{"encoder": own}, *layers, {"encoder": {"name": own["name"]}}]
        recipe = resolve(
            graph_facts(graph, choice),
            regularizer=self._regularizer,
            layers=layers,
            preset=self._preset,
            choice=choice,
        )
        self._resolved = graph, recipe
        return recipe

    def _looks(self) -> bool:
        """Whether encoder, scale and hops are chosen by a look at the graph."""
        plain = merge(*self._layers)
        named = plain.get("encoder", {}).get("name")
        if named == AUTO_ENCODER:
            return True
        is_free = not plain.keys() & {"data", "propagation", "encoder"}
        return is_free and self._own is None and self._preset == "auto"

    def fit(
        self,
        graph: Graph,
        *,
        prepared: Prepared | None = None,
        checkpoint: Path | None = None,
        on_epoch: Callable[[EpochRecord], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        watch_test: bool = False,
    ) -> NodeClassifier:
        """Train on the graph's training nodes, with all its other nodes as unlabeled ones.

        Of a graph whose hops are kept for some nodes only, the others of these are unlabeled ones.

        Args:
            graph: With features, labels and splits.
            prepared: Hops computed before with the same settings.
            checkpoint: File to continue from and to write to.
            on_epoch: Called after every epoch.
            should_stop: Asked after every epoch.
            watch_test: Record test accuracy in `history_`, for curves; nothing reads it back.

        Returns:
            Itself.
        """
        fitted = fit(
            graph,
            self.resolve(graph),
            seed=self.seed,
            device=self.device,
            prepared=prepared,
            checkpoint=checkpoint,
            on_epoch=on_epoch,
            should_stop=should_stop,
            watch_test=watch_test,
            own=self._own,
        )
        self._predictor = Predictor(TrainedModel.of(fitted, graph), graph, device=self.device)
        if self.inactive_:
            warnings.warn(
                f"`{fitted.recipe.regularizer}` had no part in this result, which is that of the "
                f"base: {'; '.join(fitted.notes)}",
                InactiveTermWarning,
                stacklevel=2,
            )
        return self

    @property
    def recipe_(self) -> Recipe:
        """All settings of the run."""
        return self._trained().model.recipe

    @property
    def module_(self) -> nn.Module:
        """The trained torch module: your own, if you gave one, else the encoder."""
        encoder = self._trained().model.encoder
        return encoder if self._own is None else cast(nn.Module, encoder.module)

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""
        return self._trained().model.history

    @property
    def notes_(self) -> list[str]:
        """What the run decided by itself, in sentences."""
        return self._trained().model.notes

    @property
    def inactive_(self) -> bool:
        """Whether a regularizer was asked for and had no part in the weights that were kept."""
        return not self._trained().model.ending("acted") and self.stopped_ != "interrupted"

    @property
    def best_epoch_(self) -> int:
        """The epoch whose weights were kept."""
        return int(self._trained().model.ending("best_epoch"))

    @property
    def stopped_(self) -> str:
        """Why training ended: `epochs`, `patience` or `interrupted`."""
        return str(self._trained().model.ending("stopped"))

    def predict_proba(
        self, nodes: ArrayLike | None = None, *, graph: Graph | None = None
    ) -> NDArray[np.float32]:
        """Probabilities of the classes, or of several targets.

        Args:
            nodes: Numbers of the nodes; none: all of them, or all that hops were kept for.
            graph: Another graph with the same kind of features, for nodes that were not there at
                training; none: the graph that the classifier was fitted on.

        Returns:
            Shape (nodes, classes).
        """
        return self._trained().probabilities(nodes, graph)

    def predict(
        self, nodes: ArrayLike | None = None, *, graph: Graph | None = None
    ) -> NDArray[np.int64]:
        """The likeliest class of each node, as its number; 0 or 1 for each of several targets."""
        return self._trained().predict(nodes, graph)

    def score(self, split: str = "test") -> float:
        """Accuracy, or the `metric` of the training, on the labeled nodes of a split."""
        return self._trained().score(split)

    def metrics(self, split: str = "test") -> dict[str, float | None]:
        """Accuracy, balanced accuracy, macro-F1, log-loss and calibration error of a split."""
        return self._trained().metrics(split)

    def explain(
        self, nodes: ArrayLike | None = None, *, at_most: int = MOST_NODES, seed: int = 0
    ) -> Explanation:
        """Which hops and relations carry the predictions; see `Explanation`.

        Args:
            nodes: The nodes to look at; none: labeled validation nodes, or training nodes where
                there are none.
            at_most: Of more nodes, so many are drawn.
            seed: Decides which nodes are drawn and how parts of the input are shuffled.
        """
        return self._trained().explain(nodes, at_most=at_most, seed=seed)

    def summary(self) -> dict[str, Any]:
        """The content of `metrics.json`; after `load`, what the run has recorded."""
        return self._trained().summary()

    def save(self, path: str | Path, *, source: str | None = None) -> Path:
        """Write a run directory that `load`, `scr predict` and `scr report` read.

        Args:
            path: A new folder; written whole or not at all.
            source: Where the graph can be loaded from again; none: where `load_graph` found it, or
                its store. A graph that was changed since then is refused when it is loaded again.
        """
        path = Path(path)
        if path.exists():
            raise RunError(
                f"`{path}` exists already; expected a new folder", hint="choose another path"
            )
        fitted, graph = self._trained().fitted(), self._trained().graph
        store = None if graph.path is None else str(graph.path.resolve())
        origin = source or graph.source or store
        run = runs.describe_run(
            graph,
            fitted.recipe,
            seed=self.seed,
            source=origin,
            command=None,
            threads=torch.get_num_threads(),
        )
        temporary = path.with_name(f".{path.name}.partial")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            runs.start_run(temporary, run, resume=False)
            self.write_into(temporary, run)
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return path

    def write_into(
        self,
        path: Path,
        run: Mapping[str, Any],
        *,
        probabilities: ProbabilityColumns | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Write model, history, predictions and, last, metrics into a run directory."""
        return self._trained().write_run(
            path, run, probabilities=probabilities, on_progress=on_progress
        )

    def write_predictions(
        self,
        path: str | Path,
        *,
        graph: Graph | None = None,
        nodes: ArrayLike | None = None,
        columns: ProbabilityColumns | None = None,
        on_rows: Callable[[int], None] | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Stream predictions to a Parquet file, with the user's own ids.

        Args:
            path: The file.
            graph: Another graph, for new nodes; none: the one of the fit.
            nodes: Which nodes; none: all, or all that hops were kept for.
            columns: Which probabilities to add.
            on_rows: Called with how many rows were just written.
            on_progress: Called with what is done, how many rows of it, and how many there are.

        Raises:
            GraphError: Hops of one of the nodes were not kept; nothing is written.
        """
        self._trained().write_predictions(
            Path(path),
            graph=graph,
            nodes=nodes,
            columns=columns,
            on_rows=on_rows,
            on_progress=on_progress,
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        graph: Graph | None = None,
        device: str = "cpu",
        encoder: nn.Module | Callable[[ProblemShape], nn.Module] | None = None,
    ) -> NodeClassifier:
        """Read a run directory.

        Args:
            path: As given to `save`, or to ``scr train --out``.
            graph: The graph it was fitted on; none: loaded again from where it was, when needed.
            device: Where torch computes.
            encoder: Of a run with a module of your own: that module, whose weights do not matter,
                or the function that made it.
        """
        own = separate_module(encoder)[1]
        model = read_model(Path(path), own)
        classifier = cls(encoder, seed=model.seed, device=device, recipe=model.recipe.tables())
        model.encoder.to(usable_device(device))
        classifier._predictor = Predictor(model, graph, device=device)
        return classifier

    def _trained(self) -> Predictor:
        if self._predictor is None:
            raise RunError("The classifier has no model yet; expected a call of `fit` or `load`")
        return self._predictor

"""NodeClassifier: the Python API.

classifier = scr.NodeClassifier(encoder="gamlp", regularizer="scr-m", seed=0).fit(graph)
classifier.score("test"), classifier.predict_proba([0, 1, 2])
"""

from __future__ import annotations

import operator
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import nn

from scr.encoders import ProblemShape
from scr.engines import Engine
from scr.errors import ConfigError, InactiveTermWarning
from scr.graph import Graph, check_graph
from scr.networks import OwnModule, separate_module
from scr.prediction import (
    EnsemblePredictor,
    FittedClassifier,
    Predictor,
    TrainedModel,
    open_run,
)
from scr.training import (
    AUTO_ENCODER,
    DEFAULT_REGULARIZER,
    EpochLines,
    EpochRecord,
    Prepared,
    Recipe,
    check_together,
    choose,
    fit,
    graph_facts,
    graph_to_select_on,
    in_turn,
    merge,
    resolve,
    stage_epochs,
    workers_of,
)
from scr.tuning import TIME_LIMIT, Effort, tune

EFFORTS = ("default", "best")


class NodeClassifier(FittedClassifier):
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
        verbose: int = 0,
        preset: str = "auto",
        recipe: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        data: Mapping[str, Any] | None = None,
        propagation: Mapping[str, Any] | None = None,
        consistency: Mapping[str, Any] | None = None,
        stages: Mapping[str, Any] | None = None,
        postprocess: Mapping[str, Any] | None = None,
        effort: Literal["default", "best"] = "default",
        time_limit: float | None = TIME_LIMIT,
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
            verbose: 1 prints a line for each evaluated epoch; 0 prints nothing.
            preset: A preset's name, or ``"auto"``.
            recipe: Tables as in a recipe file, or several of them, of which later ones win, also
                over the `for` tables of earlier ones; the other arguments win over all.
            data: Settings of the section `data`.
            propagation: Settings of the section `propagation`.
            consistency: Settings of the section `consistency`.
            stages: Settings of the section `stages`, such as ``{"method": "rlu"}``.
            postprocess: Settings of the section `postprocess`.
            effort: ``"best"`` tries a portfolio of settings on folds of all known labels, those of
                validation nodes included, and averages the best; what is set here all keep.
            time_limit: Seconds that ``effort="best"`` may take; none: until all were tried.
            **training: Settings of the section `training`, such as ``epochs=200``.
        """
        if effort not in EFFORTS:
            raise ConfigError("effort", effort, f"one of {', '.join(EFFORTS)}")
        operator.index(seed)
        separate_module(encoder)
        self.encoder, self.regularizer = encoder, regularizer
        self.seed, self.device, self.verbose = seed, device, verbose
        self.preset, self.recipe = preset, recipe
        self.data, self.propagation, self.consistency = data, propagation, consistency
        self.stages, self.postprocess = stages, postprocess
        self.effort, self.time_limit = effort, time_limit
        self._store_training(training)
        self._resolved: tuple[Graph, dict[str, Any], Recipe] | None = None
        self._predictor: Predictor | None = None

    @property
    def _own(self) -> OwnModule | None:
        return separate_module(self.encoder)[1]

    @property
    def _layers(self) -> list[Mapping[str, Any]]:
        sections: dict[str, Any] = {
            "data": self.data,
            "propagation": self.propagation,
            "encoder": separate_module(self.encoder)[0],
            "consistency": self.consistency,
            "training": self._training(),
            "stages": self.stages,
            "postprocess": self.postprocess,
        }
        overrides = {name: table for name, table in sections.items() if table}
        recipe = self.recipe
        layers = [recipe] if isinstance(recipe, Mapping) else list(recipe or ())
        return [*layers, overrides]

    def __repr__(self) -> str:
        is_fitted = self._predictor is not None
        plain = self.recipe_.tables() if is_fitted else merge(*self._layers)
        encoder = plain.get("encoder", {}).get("name") or AUTO_ENCODER
        regularizer = plain.get("regularizer") or DEFAULT_REGULARIZER
        if not is_fitted:
            regularizer = self.regularizer or regularizer
        own = self._own
        if own is not None:
            given = self.module_ if is_fitted else own.given
            encoder = getattr(given, "__name__", type(given).__name__)
        state = "fitted" if is_fitted else "not fitted"
        return f"NodeClassifier({encoder!r}, {regularizer!r}, seed={self.seed}, {state})"

    def resolve(self, graph: Graph) -> Recipe:
        """The recipe that `fit` would use on this graph."""
        given = self.get_params()
        if self._resolved is not None:
            known, before, recipe = self._resolved
            same = given.keys() == before.keys()
            if known is graph and same and all(given[name] is before[name] for name in given):
                return recipe
        layers, seen = self._layers, check_graph(graph)
        if merge(*layers).get("training", {}).get("inductive"):
            seen = graph_to_select_on(seen)
        choice = choose(seen) if self._looks() else None
        own = self._own
        if own is not None:
            columns = graph.num_features if graph.features is not None else 1
            sizes = ProblemShape(features=columns, hops=2, classes=graph.num_classes)
            settings = own.settings(sizes)
            layers = [{"encoder": settings}, *layers, {"encoder": {"name": settings["name"]}}]
        recipe = resolve(
            graph_facts(seen, choice),
            regularizer=self.regularizer,
            layers=layers,
            preset=self.preset,
            choice=choice,
        )
        self._resolved = graph, given, recipe
        return recipe

    def _looks(self) -> bool:
        """Whether encoder, scale and hops are chosen by a look at the graph."""
        plain = merge(*self._layers)
        named = plain.get("encoder", {}).get("name")
        if named == AUTO_ENCODER:
            return True
        is_free = not plain.keys() & {"data", "propagation", "encoder"}
        return is_free and self._own is None and self.preset == "auto"

    def fit(
        self,
        graph: Graph,
        *,
        prepared: Prepared | None = None,
        checkpoint: Path | None = None,
        on_epoch: Callable[[EpochRecord], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        watch_test: bool = False,
        engine: str | Engine = "local",
        address: str | None = None,
        workers: int | None = None,
        worker_cores: int = 1,
    ) -> NodeClassifier:
        """Train on the graph's training nodes, with all its other nodes as unlabeled ones.

        Of a graph whose hops are kept for some nodes only, the others of these are unlabeled ones.
        The arguments below are for a single training: with ``effort="best"`` they are not used.

        Args:
            graph: With features, labels and splits.
            prepared: Hops computed before with the same settings.
            checkpoint: File to continue from and to write to.
            on_epoch: Called after every epoch.
            should_stop: Asked after every epoch.
            watch_test: Record test accuracy in `history_`, for curves; nothing reads it back.
            engine: ``"ray"`` trains with several workers of a Ray cluster, by shares of each batch.
            address: Of the cluster, such as ``"auto"``; none: as Ray finds one, else a new one.
            workers: How many; none: as many as there is room for.
            worker_cores: Threads of each.

        Returns:
            Itself.
        """
        if self.effort == "best":
            self._predictor = self._fit_best(graph)
            return self
        recipe = self.resolve(graph)
        if self.verbose:
            on_epoch = in_turn(EpochLines(stage_epochs(recipe), recipe.training.metric), on_epoch)
        if engine != "local":  # before a cluster is started
            check_together(recipe, self._own)
        with workers_of(
            engine, address, workers=workers, cores=worker_cores, device=self.device
        ) as group:
            fitted = fit(
                graph,
                recipe,
                seed=operator.index(self.seed),
                device=self.device,
                prepared=prepared,
                checkpoint=checkpoint,
                on_epoch=on_epoch,
                should_stop=should_stop,
                watch_test=watch_test,
                own=self._own,
                workers=group,
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

    def _fit_best(self, graph: Graph) -> EnsemblePredictor:
        """Tune in a folder that lives as long as the classifier."""
        if self._own is not None:
            raise ConfigError("effort", "best", "`default` with a module of your own")
        folder = tempfile.mkdtemp(prefix="scr-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return tune(
            graph,
            Path(folder) / "run",
            Effort(time_limit=self.time_limit),
            layers=self._layers,
            regularizer=self.regularizer,
            preset=self.preset,
            seed=operator.index(self.seed),
            device=self.device,
            source=graph.source,
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
        predictor = open_run(Path(path), graph, device=device, own=separate_module(encoder)[1])
        model = predictor.model
        classifier = cls(encoder, seed=model.seed, device=device, recipe=model.recipe.tables())
        classifier._predictor = predictor
        return classifier

"""NodeClassifier: the Python door.

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
from scr.compute import available_bytes, peak_bytes, usable_device
from scr.encoders import Encoder, ProblemShape
from scr.errors import ConfigError, GraphError, InactiveTermWarning, MemoryBudgetError, RunError
from scr.graph import Graph, check_graph
from scr.networks import separate_module
from scr.prediction import (
    MOST_NODES,
    Explanation,
    ProbabilityColumns,
    explain,
    load_run_graph,
    rows_of_other_graph,
    with_classes,
    write_predictions,
)
from scr.report import MetricsInParts, read_history
from scr.training import (
    DEFAULT_ENCODER,
    DEFAULT_REGULARIZER,
    EpochRecord,
    Fitted,
    Handover,
    Prepared,
    Recipe,
    RowSource,
    fit,
    fixed_mixture,
    graph_facts,
    label_rows,
    merge,
    positions_of,
    predict_probabilities,
    prepare_hops,
    rebuilds_label_hops,
    resolve,
    stream_logits,
)

SPLITS = ("train", "valid", "test")


class NodeClassifier:
    """Trains an encoder on a graph with a few labels, and predicts every node.

    What `fit` found out has names that end in an underscore, as in scikit-learn.
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
            encoder: A name such as ``"gamlp"``, or ``{"name": "gamlp", "hidden": 64}``. Or a torch
                module of your own, which reads hops or `(x, edge_index)` and is trained as a copy,
                from the weights that it has; or a function that makes one, told the sizes of the
                data; or ``{"module": either, "neighbors": [10, 10]}``.
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
        self._graph: Graph | None = None
        self._model: runs.StoredModel | None = None
        self._rows: RowSource | None = None
        self._fitted: Fitted | None = None

    def __repr__(self) -> str:
        is_fitted = self._fitted is not None or self._model is not None
        plain = merge(*self._layers)
        encoder = plain.get("encoder", {}).get("name") or DEFAULT_ENCODER
        regularizer = self._regularizer or plain.get("regularizer") or DEFAULT_REGULARIZER
        if is_fitted:
            encoder, regularizer = self.recipe_.encoder, self.recipe_.regularizer
        if self._own is not None:
            given = self.module_ if is_fitted else self._own.given
            encoder = getattr(given, "__name__", type(given).__name__)
        return (
            f"NodeClassifier({encoder!r}, {regularizer!r}, seed={self.seed}, "
            f"{'fitted' if is_fitted else 'not fitted'})"
        )

    def resolve(self, graph: Graph) -> Recipe:
        """The recipe that `fit` would use on this graph."""
        check_graph(graph)
        layers = self._layers
        if self._own is not None:
            columns = graph.num_features if graph.features is not None else 1
            sizes = ProblemShape(features=columns, hops=2, classes=graph.num_classes)
            found = self._own.settings(sizes)
            layers = [{"encoder": found}, *layers, {"encoder": {"name": found["name"]}}]
        return resolve(
            graph_facts(graph),
            regularizer=self._regularizer,
            layers=layers,
            preset=self._preset,
        )

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
            prepared: Hops made before with the same settings.
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
        self._fitted, self._graph, self._rows = fitted, graph, fitted.rows
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
        return self._fitted.recipe if self._fitted is not None else self._loaded().recipe

    @property
    def module_(self) -> nn.Module:
        """The trained torch module: your own, if you gave one, else the encoder."""
        encoder = self._encoder()
        return encoder if self._own is None else cast(nn.Module, encoder.module)

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""
        if self._fitted is None:
            return read_history(self._loaded().path / runs.HISTORY)
        return self._fitted.outcome.history

    @property
    def notes_(self) -> list[str]:
        """What the run decided by itself, in sentences."""
        if self._fitted is not None:
            return self._fitted.notes
        return list(self._loaded().run["notes"])

    @property
    def inactive_(self) -> bool:
        """Whether a regularizer was asked for and had no part in the weights that were kept."""
        if self._fitted is None:
            acted = self._recorded().get("consistency", {}).get("acted", True)
        else:
            acted = self._fitted.term is None or self._fitted.term.acted
        return not acted and self.stopped_ != "interrupted"

    @property
    def best_epoch_(self) -> int:
        """The epoch whose weights were kept."""
        if self._fitted is None:
            return int(self._recorded()["best_epoch"])
        return self._fitted.outcome.best_epoch

    @property
    def stopped_(self) -> str:
        """Why training ended: `epochs`, `patience` or `interrupted`."""
        if self._fitted is None:
            return str(self._recorded()["stopped"])
        return self._fitted.outcome.stopped

    def predict_proba(
        self, nodes: ArrayLike | None = None, *, graph: Graph | None = None
    ) -> NDArray[np.float32]:
        """Class probabilities.

        Args:
            nodes: Numbers of the nodes; none: all of them, or all that hops were kept for.
            graph: Another graph with the same kind of features, for nodes that were not there at
                training; none: the graph that the classifier was fitted on.

        Returns:
            Shape (nodes, classes).
        """
        known = self._fit_graph() if graph is None else check_graph(graph)
        chosen = None if nodes is None else _node_numbers(nodes, known.num_targets)
        rows = self._rows_of(graph, chosen)
        index = np.array(rows.nodes()) if chosen is None else chosen
        needed = len(index) * rows.classes * 4
        if needed > available_bytes() // 2:
            raise MemoryBudgetError(
                f"Probabilities of {len(index):,} nodes need {needed / 1e9:.1f} GB; "
                f"{available_bytes() / 1e9:.1f} GB are free",
                hint="ask for fewer `nodes`, or write them to disk with `scr predict`",
            )
        return predict_probabilities(self._encoder(), rows, torch.from_numpy(index)).numpy()

    def predict(
        self, nodes: ArrayLike | None = None, *, graph: Graph | None = None
    ) -> NDArray[np.int64]:
        """The likeliest class of each node, as its number; see `predict_proba`."""
        predicted: NDArray[np.int64] = self.predict_proba(nodes, graph=graph).argmax(axis=1)
        return predicted

    def score(self, split: str = "test") -> float:
        """Accuracy on the labeled nodes of a split."""
        return float(self.metrics(split)["accuracy"] or 0)

    def metrics(self, split: str = "test") -> dict[str, float | None]:
        """Accuracy, balanced accuracy, macro-F1, log-loss and calibration error of a split."""
        graph = self._fit_graph()
        if split not in SPLITS:
            raise ConfigError("split", split, f"one of {', '.join(SPLITS)}")
        nodes = np.array(getattr(graph, split), dtype=np.int64)
        labels = np.asarray(graph.labels[nodes])
        nodes, labels = nodes[labels >= 0], labels[labels >= 0]
        if len(nodes) == 0:
            raise GraphError(f"The split `{split}` has no labeled nodes; expected at least one")
        measured, done = MetricsInParts(), 0
        rows, index = self._rows_of(None, nodes), torch.from_numpy(nodes)
        for part, logits in stream_logits(self._encoder(), rows, index):
            measured.add(labels[done : done + len(part)], torch.softmax(logits, dim=-1).numpy())
            done += len(part)
        return measured.measures()

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
        graph, split = self._fit_graph(), None
        if nodes is None:
            split = "valid" if self._has_labels("valid") else "train"
            chosen = np.array(getattr(graph, split), dtype=np.int64)
            chosen = chosen[np.asarray(graph.labels[chosen]) >= 0]
        else:
            chosen = _node_numbers(nodes, graph.num_targets)
        prepared = self._loaded() if self._fitted is None else self._fitted.prepared
        return explain(
            self._encoder(),
            self._rows_of(None, chosen),
            chosen,
            labels=graph.labels,
            class_names=self._class_names(),
            subsets=getattr(prepared, "subsets", None),
            fixed=fixed_mixture(self.recipe_),
            split=split,
            at_most=at_most,
            seed=seed,
            target=graph.target,
        )

    def summary(self) -> dict[str, Any]:
        """The content of `metrics.json`; after `load`, what the run has recorded."""
        if self._fitted is None:
            return self._recorded()
        fitted, graph = self._fitted, self._fit_graph()
        outcome = fitted.outcome
        scored = {name: self.metrics(name) for name in ("valid", "test") if self._has_labels(name)}
        return {
            "valid_accuracy": scored["valid"]["accuracy"] if "valid" in scored else None,
            "test_accuracy": scored["test"]["accuracy"] if "test" in scored else None,
            "best_epoch": outcome.best_epoch,
            "epochs": outcome.epochs,
            "stopped": outcome.stopped,
            "train_seconds": outcome.train_seconds,
            "propagate_seconds": fitted.prepared.seconds,
            "peak_memory_bytes": peak_bytes(),
            "parameters": sum(weight.numel() for weight in fitted.encoder.parameters()),
            "nodes": graph.num_targets,
            **({} if fitted.term is None else {"consistency": fitted.term.summary()}),
            **scored,
        }

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
        fitted, graph = self._trained(), self._fit_graph()
        store = None if graph.path is None else str(graph.path.resolve())
        found = source or graph.source or store
        run = runs.describe_run(graph, fitted.recipe, seed=self.seed, source=found, command=None)
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
        fitted = self._trained()
        runs.write_model(path / runs.MODEL, fitted)
        runs.write_history(path / runs.HISTORY, self.history_)
        kept = "all" if fitted.rows.kept is None else len(fitted.rows)
        told = {**run, "rows_kept": kept, "notes": fitted.notes}
        if fitted.prepared.subsets is not None:
            told["subsets"] = fitted.prepared.subsets
        runs.write_json(path / runs.RUN, told)
        runs.write_split(path / runs.SPLIT, self._fit_graph())
        self.write_predictions(
            path / runs.PREDICTIONS, columns=probabilities, on_progress=on_progress
        )
        if rebuilds_label_hops(fitted.recipe):
            handover = fitted.handover or Handover.nothing(fitted.rows.classes)
            runs.write_handover(path / runs.HANDOVER, handover)
        summary = self.summary()
        runs.write_json(path / runs.EXPLANATION, self.explain().tables())
        runs.write_json(path / runs.METRICS, summary)
        runs.remove_checkpoints(path)
        return summary

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
            on_rows: Told how many rows were just written.
            on_progress: Told what is done, how many rows of it, and how many there are.

        Raises:
            GraphError: Hops of one of the nodes were not kept; nothing is written.
        """
        known = self._fit_graph()
        if graph is not None:
            known = with_classes(check_graph(graph), self._class_names())
        chosen = None if nodes is None else _node_numbers(nodes, known.num_targets)
        rows, encoder = self._rows_of(graph, chosen), self._encoder()
        if chosen is not None and rows.kept is not None:
            positions_of(chosen, rows.kept)  # at once, not after hours

        def predict(part: NDArray[np.int64]) -> NDArray[np.float32]:
            return predict_probabilities(encoder, rows, torch.tensor(part)).numpy()

        index = rows.kept if chosen is None else chosen
        done, total = 0, known.num_targets if index is None else len(index)

        def tell(count: int) -> None:
            nonlocal done
            done += count
            if on_rows is not None:
                on_rows(count)
            if on_progress is not None:
                on_progress("Predicting", done, total)

        write_predictions(Path(path), known, predict, nodes=index, columns=columns, on_rows=tell)

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
        model = runs.read_model(Path(path), own)
        recipe = model.run["recipe"]
        classifier = cls(encoder, seed=model.run["seed"], device=device, recipe=recipe)
        classifier._model = model
        if graph is not None:
            classifier._graph = with_classes(graph, classifier._class_names())
        model.encoder.to(usable_device(device))
        return classifier

    def _rows_of(self, graph: Graph | None, nodes: NDArray[np.int64] | None) -> RowSource:
        """Rows of the fitted graph (made once), or of another one; of some nodes if possible."""
        if graph is not None:
            return self._rows_of_other(graph, nodes)
        if self._rows is None or not (self._fitted or self._rows.has(nodes)):
            model, known = self._loaded(), self._fit_graph()
            handover = None
            if rebuilds_label_hops(model.recipe):
                handover = runs.read_handover(model.path / runs.HANDOVER)
            made = prepare_hops(
                known, model.recipe, fitted=model.features, nodes=nodes, subsets=model.subsets
            )
            labels = label_rows(
                known, model.recipe, seed=self.seed, handover=handover, kept=made.kept
            )
            device = torch.device(self.device)
            rows = made.rows(len(self._class_names()), labels, device, seed=self.seed)
            if nodes is not None and rows.kept is not None:
                return rows  # another call may ask for other nodes
            self._rows = rows
        return self._rows

    def _rows_of_other(self, graph: Graph, nodes: NDArray[np.int64] | None) -> RowSource:
        self._check_learned_vectors(graph)
        prepared = self._loaded() if self._fitted is None else self._fitted.prepared
        return rows_of_other_graph(
            graph,
            self._encoder(),
            self.recipe_,
            prepared.features,
            class_names=self._class_names(),
            seed=self.seed,
            device=self.device,
            nodes=nodes,
            subsets=prepared.subsets,
            relations=self._relations(),
        )

    def _check_learned_vectors(self, graph: Graph) -> None:
        """Refuse another graph's nodes where nodes have learned vectors of their own."""
        if not self.recipe_.encoder_settings.get("node_embeddings"):
            return
        if graph.fingerprint("edges") != self._fit_graph().fingerprint("edges"):
            raise GraphError(
                f"The model learned a vector for each node without features, which the nodes of "
                f"the graph `{graph.name}` do not have; expected the graph of the training",
                hint="train with `encoder.node_embeddings = false` to predict on other graphs",
            )

    def _relations(self) -> tuple[str, ...]:
        """Full names of the relations trained on; none of a graph of one type and relation."""
        if self._fitted is None:
            return tuple(self._loaded().run["graph"].get("relations", ()))
        graph = self._fit_graph()
        return tuple(map(str, graph.relations)) if graph.is_typed else ()

    def _encoder(self) -> Encoder:
        return self._loaded().encoder if self._fitted is None else self._fitted.encoder

    def _class_names(self) -> tuple[str, ...]:
        if self._fitted is not None:
            return self._fit_graph().class_names
        return tuple(self._loaded().run["graph"]["class_names"])

    def _fit_graph(self) -> Graph:
        if self._graph is None:
            self._graph = load_run_graph(self._loaded().path, self._loaded().run)
        return self._graph

    def _has_labels(self, split: str) -> bool:
        graph = self._fit_graph()
        return bool((graph.labels[getattr(graph, split)] >= 0).any())

    def _trained(self) -> Fitted:
        if self._fitted is None:
            raise RunError("The classifier has not been fitted here; expected a call of `fit`")
        return self._fitted

    def _recorded(self) -> dict[str, Any]:
        """`metrics.json` of the run that was loaded."""
        file = self._loaded().path / runs.METRICS
        if not file.exists():
            raise RunError(
                f"The run has no `{file}`; expected a finished run",
                hint="continue it with `scr train ... --resume`",
            )
        return runs.read_json(file)

    def _loaded(self) -> runs.StoredModel:
        if self._model is None:
            raise RunError("The classifier has no model yet; expected a call of `fit` or `load`")
        return self._model


def _node_numbers(nodes: ArrayLike, count: int) -> NDArray[np.int64]:
    index = np.atleast_1d(np.array(nodes))  # a copy: torch wants to be able to write
    if index.ndim > 1 or (index.size and index.dtype.kind not in "biu"):
        raise GraphError(
            f"The nodes are {index.dtype} of shape {index.shape}; expected a list of whole numbers"
        )
    if index.dtype == bool:
        if len(index) != count:
            raise GraphError(
                f"The mask of nodes has {len(index):,} entries; expected {count:,}, one per node"
            )
        index = np.flatnonzero(index)
    index = index.astype(np.int64)
    wrong = index[(index < 0) | (index >= count)]
    if len(wrong):
        raise GraphError(f"There is no node {wrong[0]}; expected numbers from 0 to {count - 1:,}")
    return index

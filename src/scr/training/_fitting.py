"""One run from graph to trained encoder: prepare, estimate trust, train."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scr.compute import keep_freed_memory, usable_device
from scr.consistency import drops_nodes
from scr.encoders import Encoder
from scr.errors import ConfigError, GraphError, ResumeWarning
from scr.features import FeatureConfig, choose_reduction
from scr.graph import Graph, known_labels
from scr.metrics import ACCURACY, METRICS, Metric
from scr.networks import OwnModule, make_encoder, try_out, views_are_equal
from scr.propagation import rows_hash
from scr.runs import run_identity, subsets_identity
from scr.training._checkpoint import resume_notes
from scr.training._inductive import (
    InductivePrepared,
    InductiveRows,
    check_inductive,
    in_whole_graph,
)
from scr.training._loop import denormals_flushed
from scr.training._prepare import Prepared, make_rows, node_dropper, prepare
from scr.training._recipe import Recipe
from scr.training._records import (
    NO_VALIDATION,
    EpochRecord,
    Handover,
    Stage,
    TermReport,
    TrainingOutcome,
    ValidationNodes,
    collapse_notes,
)
from scr.training._refit import (
    Selected,
    check_refit,
    refit_note,
    refit_stage,
    refitted,
    with_known_labels,
)
from scr.training._rows import (
    Rows,
    RowSource,
    as_probabilities,
    predict_logits,
    predict_probabilities,
)
from scr.training._stages import train_in_stages
from scr.training._together import GroupOfWorkers, TrainStage, check_together, train_here
from scr.training._trust import TermGain, baseline_note, compares, judge_trust
from scr.training.presets import GraphFacts
from scr.training.presets._auto import Choice

TRIED_ROWS = 2
"""On which a module of the user's own is tried out: one would hide a missing dimension."""

SAME_OUTPUT = "The module gives the same output twice: without dropout, views do not differ"
WITHOUT_NOISE = {
    "scr": "the consistency term only sharpens predictions",
    "scr-m": "the consistency term only follows the teacher and sharpens",
    "pi": "the term of `pi` is 0",
    "r-drop": "the term of `r-drop` is 0",
    "fixmatch": "`fixmatch` is taught its own predictions without noise",
    "freematch": "`freematch` is taught its own predictions without noise",
    "softmatch": "`softmatch` is taught its own predictions without noise",
}
"""What is left of a regularizer; `entropy` compares nothing, and `grand` has noise of its own."""


@dataclass(frozen=True)
class Fitted:
    """A trained encoder and all that is known of how it came about."""

    encoder: Encoder
    rows: RowSource
    recipe: Recipe
    seed: int
    prepared: Prepared
    outcome: TrainingOutcome
    notes: list[str] = field(default_factory=list)
    """What the run decided by itself, in sentences for the report."""
    handover: Handover | None = None
    """What the last of several stages was given; its label hops were built from it."""
    term: TermReport | None = None
    """What the term on unlabeled nodes did; none: there was none."""
    multilabel: bool = False
    """Whether outputs are of several yes-or-no targets."""
    held_out: Tensor | None = None
    """Of a refit: probabilities of the labeled validation nodes by the weights before it."""
    gain: TermGain | None = None
    """Of the term on unlabeled nodes, where it was compared with its baseline."""

    def probabilities(self, nodes: Tensor | None = None) -> Tensor:
        """Class probabilities of some nodes, or of all that have hops."""
        index = torch.tensor(self.rows.nodes()) if nodes is None else nodes
        return predict_probabilities(self.encoder, self.rows, index, multilabel=self.multilabel)


def graph_facts(graph: Graph, choice: Choice | None = None) -> GraphFacts:
    """What the choice of a preset may look at.

    Args:
        graph: The graph.
        choice: What a look at it chose; it may have decided against a reduction.
    """
    data = FeatureConfig(**({} if choice is None else choice.tables.get("data", {})))
    return GraphFacts(
        nodes=graph.num_targets,
        train=len(graph.train),
        classes=graph.num_classes,
        reduced=graph.features is not None and choose_reduction(graph.features, data) != "none",
        types=len(graph.node_types),
        relations=len(graph.relations),
        multilabel=graph.is_multilabel,
    )


def fit(
    graph: Graph,
    recipe: Recipe,
    *,
    seed: int = 0,
    device: str = "cpu",
    prepared: Prepared | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[EpochRecord], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    watch_test: bool = False,
    own: OwnModule | None = None,
    workers: GroupOfWorkers | None = None,
) -> Fitted:
    """Train one encoder on one graph, in one stage or in several.

    The same seed, versions and machine give the same weights bit for bit on the CPU. The caller's
    random state is left as it was. Arguments that are not listed are those of `NodeClassifier.fit`.

    Args:
        graph: With features, labels and splits.
        recipe: All settings.
        seed: Decides initial weights, batches and dropout.
        device: Where torch computes.
        prepared: Hops computed before with the same settings, to be shared by runs.
        own: A module of the user's own, where the recipe says that there is one.
        workers: That train together; none: this process trains.
    """
    check_trainable(graph, recipe)
    if workers is not None:
        check_together(recipe, own)
    train: TrainStage = workers or train_here
    target = usable_device(device)
    keep_freed_memory()
    prepared = prepared or prepare(graph, recipe, device=device)
    whole, seen = graph, graph
    if isinstance(prepared, InductivePrepared):
        graph, seen = prepared.known, prepared.seen
    consistency, notes = judge_trust(recipe.consistency, prepared, seen)
    metric = METRICS[recipe.training.metric]
    stage = Stage(
        train=torch.from_numpy(np.array(graph.train, dtype=np.int64)),
        train_labels=_labels_of(graph, graph.train),
        unlabeled=all_but(graph.train, graph.num_targets, prepared.kept),
        validation=_scored(graph, "valid", metric),
        training=recipe.training,
        consistency=consistency,
        regularizer=recipe.regularizer,
        seed=seed,
        watched=_scored(graph, "test") if watch_test else NO_VALIDATION,
        checkpoint=checkpoint,
        identity="" if checkpoint is None else _identity(graph, recipe, seed, prepared),
        on_epoch=on_epoch,
        should_stop=should_stop,
    )
    dropper = node_dropper(seen, recipe, prepared)

    known = graph  # of a refit, with more training nodes

    def plain_rows(handover: Handover | None) -> RowSource:
        return make_rows(prepared, known, recipe, target, seed=seed, handover=handover)

    def rows_with(handover: Handover | None) -> RowSource:
        rows = plain_rows(handover)
        # Only hops that are mixed beforehand, which are `Rows`, have nodes dropped.
        if isinstance(rows, InductiveRows) and isinstance(rows.trained, Rows):
            noisy = dataclasses.replace(rows.trained, noise=dropper)
            return dataclasses.replace(rows, trained=noisy)
        return dataclasses.replace(rows, noise=dropper) if isinstance(rows, Rows) else rows

    def make(rows: RowSource) -> Encoder:
        encoder = make_encoder(recipe.encoder, recipe.encoder_settings, rows.shape, own)
        if own is not None:
            some = rows.batch(torch.tensor(rows.nodes()[:TRIED_ROWS]))
            try_out(encoder.to(target), some, rows.classes)
            without = WITHOUT_NOISE.get(recipe.regularizer)
            if without is not None and consistency is not None and consistency.weight != 0:
                note = f"{SAME_OUTPUT}, and {without}"
                if note not in notes and views_are_equal(encoder, some):
                    notes.append(note)
        return encoder

    elsewhere = resume_notes(checkpoint, None if workers is None else workers.machine())
    for change in elsewhere:
        warnings.warn(change, ResumeWarning, stacklevel=2)
    gain: TermGain | None = None
    devices = [target] if target.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), denormals_flushed():
        selected = Selected.read(stage) if recipe.training.refit else None
        if selected is not None:
            notes[:], outcome, handover = selected.notes, selected.outcome, None
            gain = selected.gain
        else:
            encoder, rows, outcome, handover = train_in_stages(
                stage, recipe.stages, rows_with, make, train
            )
        if selected is None and compares(consistency, outcome, recipe):
            baseline = dataclasses.replace(stage, consistency=None, checkpoint=None, on_epoch=None)
            alike = rows_with if drops_nodes(recipe.regularizer) else plain_rows
            other, _, alone, _ = train_in_stages(baseline, recipe.stages, alike, make, train)
            both = [predict_logits(each, rows, stage.validation.nodes) for each in (encoder, other)]
            if not graph.is_multilabel:
                gain = _gain(graph, *both)
            noise = None
            if metric is not ACCURACY:
                noise = partial(stage.validation.noise, logits=both[1])
            note = baseline_note(outcome, alone, len(graph.valid), metric=metric, noise=noise)
            seconds = outcome.train_seconds + alone.train_seconds
            if note is not None:
                assert consistency is not None
                encoder, outcome = other, alone
                consistency = dataclasses.replace(consistency, weight=0.0)
                notes.append(note)
            outcome = dataclasses.replace(outcome, train_seconds=seconds)
            if recipe.training.refit and alone.stopped == "interrupted":
                outcome = dataclasses.replace(outcome, stopped="interrupted")
        if recipe.training.refit and outcome.stopped != "interrupted":
            if selected is None:
                logits = predict_logits(encoder, rows, stage.validation.nodes)
                accuracy = stage.validation.score(logits).accuracy
                outcome = dataclasses.replace(outcome, valid_accuracy=accuracy)
                weight = None if consistency is None else consistency.weight
                soft = as_probabilities(logits, graph.is_multilabel).cpu()
                selected = Selected(outcome, weight, list(notes), soft, gain)
                selected.write(stage)
            labeled = with_known_labels(graph, recipe)
            unlabeled = all_but(labeled.train, graph.num_targets, prepared.kept)
            stage = refit_stage(stage, labeled, selected, unlabeled)
            consistency, known = stage.consistency, labeled
            encoder, rows, last, handover = train_in_stages(
                stage, recipe.stages, rows_with, make, train
            )
            outcome = refitted(outcome, last)
            notes.append(refit_note(labeled, selected.outcome.best_epoch))
    encoder.eval()
    ready = prepared  # for predictions
    if isinstance(prepared, InductivePrepared):
        handover = in_whole_graph(handover, whole)
        fitted, subsets = prepared.features, prepared.subsets
        ready = prepare(whole, recipe, fitted=fitted, subsets=subsets, device=device)
        assert not isinstance(ready, InductivePrepared)
        ready = dataclasses.replace(ready, seconds=ready.seconds + prepared.seconds)
        rows = make_rows(ready, whole, recipe, target, seed=seed, handover=handover)
    term = None
    if recipe.consistency is not None and consistency is not None and recipe.consistency.weight:
        term = TermReport(
            recipe.consistency, consistency.weight, len(stage.unlabeled), outcome,
            None if gain is None else gain.table(),
        )  # fmt: skip
        notes += term.notes()
    notes += [*collapse_notes(outcome, metric), *elsewhere]
    return Fitted(
        encoder, rows, recipe, seed, ready, outcome, notes, handover, term, graph.is_multilabel,
        None if selected is None else selected.held_out, gain,
    )  # fmt: skip


def _gain(graph: Graph, with_term: Tensor, without_term: Tensor) -> TermGain:
    """From logits of the labeled validation nodes."""
    labels = np.asarray(graph.labels[nodes_with_labels(graph, "valid")])
    predicted = (each.argmax(dim=-1).cpu().numpy() for each in (with_term, without_term))
    return TermGain.of(labels, *predicted)


def _identity(graph: Graph, recipe: Recipe, seed: int, prepared: Prepared) -> str:
    """Names a run; rows that do not train are its unlabeled nodes, and subsets may have changed."""
    rows = [] if prepared.kept is None else [f"rows {rows_hash(prepared.kept)}"]
    return run_identity(graph, recipe, seed, *rows, *subsets_identity(prepared.subsets))


def check_trainable(graph: Graph, recipe: Recipe) -> None:
    """Refuse a graph without the nodes that training needs."""
    if len(graph.train) == 0:
        raise GraphError(
            f"The graph `{graph.name}` has no training nodes; expected at least one",
            hint="give a split, such as `splits=per-class:20,30` or `train=...`",
        )
    if len(graph.valid) == 0 and recipe.training.select != "last":
        expected = "`last` where a graph has no validation nodes"
        hint = "give validation nodes, or set training.select=last"
        raise ConfigError("training.select", recipe.training.select, expected, hint=hint)
    if recipe.training.metric == "roc-auc" and recipe.training.select != "last":
        labels = np.asarray(graph.labels[nodes_with_labels(graph, "valid")])
        if labels.ndim == 2 and not ((labels == 0).any(axis=0) & (labels == 1).any(axis=0)).any():
            expected = "another metric where no target has both labels among validation nodes"
            raise ConfigError("training.metric", "roc-auc", expected)
        if labels.ndim == 1 and len(np.unique(labels)) < 2:
            expected = "another metric where all validation nodes are of one class"
            raise ConfigError("training.metric", "roc-auc", expected)
    check_refit(graph, recipe)
    check_inductive(recipe)


def all_but(
    train: NDArray[np.integer[Any]], nodes: int, kept: NDArray[np.int64] | None = None
) -> Tensor:
    """Of so many nodes, those that have hops (`kept`; none: all) and do not train, ascending."""
    others = np.zeros(nodes, dtype=bool)
    others[slice(None) if kept is None else kept] = True
    others[train] = False
    return torch.from_numpy(np.flatnonzero(others))


def nodes_with_labels(graph: Graph, split: str) -> NDArray[np.int64]:
    """Nodes of a split, `train`, `valid` or `test`, whose labels are known."""
    nodes = np.array(getattr(graph, split), dtype=np.int64)
    return nodes[known_labels(np.asarray(graph.labels[nodes]))]


def _scored(graph: Graph, split: str, metric: Metric = ACCURACY) -> ValidationNodes:
    nodes = nodes_with_labels(graph, split)
    return ValidationNodes(torch.from_numpy(nodes), _labels_of(graph, nodes), metric)


def _labels_of(graph: Graph, nodes: NDArray[np.int64]) -> Tensor:
    kind = np.int8 if graph.is_multilabel else np.int64
    return torch.from_numpy(np.array(graph.labels[nodes], dtype=kind))

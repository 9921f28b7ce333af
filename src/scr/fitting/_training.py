"""Choose, train and measure: with a part of the labels held out, or with each of them in turn."""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from scr import runs, training
from scr.classifier import NodeClassifier
from scr.errors import InactiveTermWarning, SCRError
from scr.fitting._inputs import FitInput
from scr.fitting._options import TRAINING, FitOptions, Watch
from scr.fitting._record import FIT, held_out_in_folds, held_out_once, input_record, read_record
from scr.fitting._splits import SplitPlan
from scr.graph import Graph
from scr.prediction import ENSEMBLE
from scr.tuning import Effort, tune

COMPARED = {"for": {name: {"consistency": {"trust": "compared"}} for name in ("scr", "scr-m")}}
"""Below all settings: the baseline is trained as well, and kept where it is clearly better."""
REFIT = {"training": {"refit": True}}
MEMBERS: dict[str, dict[str, Any]] = {"auto": {}, "without-scr": {"regularizer": "none"}}
"""What is trained on each fold where labels are few."""
MOST_COPIED = 2**31
"""Bytes of a store from which a run refers to it instead of holding a copy."""
PREPARATION = ("preparation.json", "preparation.npz")


def train_once(
    read: FitInput, plan: SplitPlan, options: FitOptions, out: Path | None, watch: Watch
) -> tuple[NodeClassifier, dict[str, Any]]:
    """Train with held-out labels, then on all of them; returns the classifier and its record.

    Args:
        read: What was read.
        plan: Its split, with validation nodes.
        options: Of the fit.
        out: The run directory, which is new or the same run; none: nothing is written.
        watch: Who is told.
    """
    graph, record = plan.graph, input_record(read, plan)
    classifier = NodeClassifier(
        options.encoder, seed=options.seed, device=options.device,
        recipe=[COMPARED, *options.recipe, REFIT],
    )  # fmt: skip
    watch.on_step("Choosing")
    recipe = classifier.resolve(graph)
    training.check_trainable(graph, recipe)
    if out is None:
        _train(classifier, graph, recipe, None, watch)
        return classifier, {**record, **held_out_once(classifier.fitted_, plan)}
    run = runs.describe_run(
        graph, recipe, seed=options.seed, source=_source(graph, out), command=options.command,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    if runs.start_run(out, run, resume=True):
        runs.remove_checkpoints(out)
        loaded = NodeClassifier.load(out, graph=graph, device=options.device)
        return loaded, read_record(out)
    with _withdrawn_if_refused(out):
        _write_inputs(out, read, graph, record)
        _train(classifier, graph, recipe, out / runs.CHECKPOINT, watch)
    record |= held_out_once(classifier.fitted_, plan)
    runs.write_json(out / FIT, record)
    watch.on_step("Predicting")
    classifier.write_into(out, run, probabilities=options.columns)
    return classifier, record


def _train(
    classifier: NodeClassifier,
    graph: Graph,
    recipe: training.Recipe,
    checkpoint: Path | None,
    watch: Watch,
) -> None:
    watch.on_step(TRAINING)
    on_epoch, epochs = watch.on_epoch, training.stage_epochs(recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InactiveTermWarning)  # the record says what the term gains
        classifier.fit(
            graph, checkpoint=checkpoint, should_stop=watch.should_stop,
            on_epoch=None if on_epoch is None else lambda epoch: on_epoch(epoch, epochs),
        )  # fmt: skip
    if classifier.stopped_ == "interrupted":
        raise KeyboardInterrupt


def train_on_folds(
    read: FitInput, plan: SplitPlan, options: FitOptions, out: Path | None, watch: Watch
) -> tuple[NodeClassifier, dict[str, Any]]:
    """Hold every label out in turn, and average the models; arguments as of `train_once`."""
    effort = Effort(
        time_limit=None, portfolio=MEMBERS, on_trial=watch.on_trial, on_interrupt="stop"
    )
    if options.effort == "best":
        effort = Effort(time_limit=options.time_limit, on_trial=watch.on_trial)
    graph, record = plan.graph, input_record(read, plan)
    temporary = None if out else tempfile.mkdtemp(prefix="scr-")
    folder = out or Path(str(temporary)) / "run"
    watch.on_step("Training on folds of the labels")
    try:
        with _withdrawn_if_refused(folder):
            if out is not None:
                _write_inputs(out, read, graph, record)
            tune(
                graph, folder, effort, layers=options.recipe, seed=options.seed,
                device=options.device, source=_source(graph, folder), command=options.command,
                resume=True, probabilities=options.columns,
            )  # fmt: skip
        classifier = NodeClassifier.load(folder, graph=graph, device=options.device)
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    record |= held_out_in_folds(folder)
    if runs.read_json(folder / ENSEMBLE, {"folds": int})["folds"] > 1:
        record["split"]["kind"] = "folds"
    if temporary is not None:
        weakref.finalize(classifier, shutil.rmtree, temporary, ignore_errors=True)
    else:
        runs.rewrite_json(folder, FIT, record)
    return classifier, record


def _source(graph: Graph, out: Path) -> str | None:
    """Where the graph of a run is found again."""
    if _is_copied(graph):
        return str(out.resolve() / runs.GRAPH)
    return graph.source or str(graph.path)


def _is_copied(graph: Graph) -> bool:
    """Whether a run holds the graph itself."""
    if graph.path is None:
        return True
    return sum(file.stat().st_size for file in graph.path.rglob("*")) <= MOST_COPIED


def _write_inputs(out: Path, read: FitInput, graph: Graph, record: dict[str, Any]) -> None:
    """Write what a run must have to be used elsewhere: its graph, and how columns were prepared."""
    out.mkdir(parents=True, exist_ok=True)
    if not (out / FIT).exists():
        runs.write_json(out / FIT, record)
    if _is_copied(graph) and not (out / runs.GRAPH).exists():
        graph.save(out / runs.GRAPH)
    if read.preparation is not None and not all((out / name).exists() for name in PREPARATION):
        read.preparation.save(out)


@contextmanager
def _withdrawn_if_refused(out: Path) -> Iterator[None]:
    """Remove what was written if training cannot begin; what is trained stays for a resume."""
    written = [name for name in (runs.GRAPH, FIT, *PREPARATION) if not (out / name).exists()]
    try:
        yield
    except SCRError:
        is_trained = any(out.glob("checkpoint*")) or any(out.glob("models/*/fold-*"))
        if out.is_dir() and not is_trained:
            for name in written:
                if name == runs.GRAPH:
                    shutil.rmtree(out / name, ignore_errors=True)
                else:
                    (out / name).unlink(missing_ok=True)
            if not any(out.iterdir()):
                out.rmdir()
            elif (out / runs.RUN).exists():
                runs.withdraw_run(out)
        raise

"""Every long command, on inputs so small that a whole run takes about a second.

Constants of scr that say from when on a graph is large are made small, so that small inputs go the
way of large ones: edges in buckets, hops out of core, a checkpoint after every epoch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from campaigns._fork import Ended, run_command
from campaigns._trees import tree

SHAPE = "--nodes 2000 --edges 8000 --features 16 --classes 4 --test-fraction 0.4"
LARGER = "--nodes 12000 --edges 48000 --features 32 --classes 4"
QUICK = (
    "--set training.epochs=6 --set training.evaluate_every=1 --set consistency.warmup=1 "
    "--set consistency.threshold=0.3"
)
"""A few epochs, in which the regularizer acts."""
SMALL: Mapping[str, Any] = {"scr.training._loop:CHECKPOINT_SECONDS": 0.0}
BUCKETS: Mapping[str, Any] = {
    "scr.ingest._plan:LARGE_EDGES": 1,
    "scr.ingest._row_writer:CHECKPOINT_BYTES": 1,
    "scr.ingest._plan:LARGEST_CHUNK": 1 << 12,
    "scr.storage._sequential_writer:DIRECT_BYTES": 1 << 12,
}
BLOCKS: Mapping[str, Any] = {
    "scr.propagation.disk._plan:_widths": lambda columns, line: [min(columns, 8)],
    "scr.storage._sequential_writer:DIRECT_BYTES": 1 << 12,
}
BRIEF: Mapping[str, Any] = {"training": {"epochs": 3, "evaluate_every": 1}}


@dataclass(frozen=True)
class Scenario:
    """A command whose result is known, in a folder that holds copies of its inputs."""

    name: str
    line: str
    """The words after `scr`; names are relative to the folder."""
    inputs: tuple[str, ...] = ()
    """Names of shared inputs that are copied into the folder first."""
    older: str | None = None
    """A command that is run before, whose result this one replaces."""
    whole: str | None = None
    """What is there whole or not at all at every instant: of an older result, or of the new."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    """How often it is drawn, against others."""

    @property
    def words(self) -> list[str]:
        """The words of the command."""
        return self.line.split()

    def set_up(self, shared: Path, folder: Path, log: Path) -> None:
        """Copy the inputs and run what is to be replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.inputs:
            source = given(shared, name)
            if source.is_dir():
                shutil.copytree(source, folder / name)
            else:
                shutil.copy2(source, folder / name)
        if self.older is not None:
            run_well(self.older, folder, log, self.constants)


def run_well(
    line: str, folder: Path, log: Path, constants: Mapping[str, Any] | None = None
) -> Ended:
    """Run a command that must end well."""
    ended = run_command(line.split(), folder, log, constants=constants)
    if ended.code:
        raise RuntimeError(f"scr {line}: {ended.output}")
    return ended


def _trainings() -> list[Scenario]:
    return [
        Scenario(
            f"train {encoder} {regularizer}",
            f"train {store} --encoder {encoder} --regularizer {regularizer} --out run --resume "
            + QUICK,
            (store,), constants=SMALL, weight=0.6,
        )
        for store, encoder, regularizer in (
            ("store", "sagn", "scr"), ("store", "sagn", "scr-m"), ("store", "gamlp", "scr"),
            ("store", "gamlp", "scr-m"), ("store", "gcn", "scr"), ("store", "gcn", "scr-m"),
            ("typed", "nars-sagn", "scr"), ("typed", "nars-sagn", "scr-m"),
        )
    ]  # fmt: skip


SCENARIOS = (
    Scenario("synth", f"synth made {SHAPE}", whole="made"),
    Scenario("synth overwrite", f"synth made {SHAPE} --seed 1 --overwrite",
             older=f"synth made {SHAPE}", whole="made"),
    Scenario("synth shards", f"synth --source made {SHAPE}"),
    Scenario("synth parquet shards", f"synth --source made --shards parquet {SHAPE}"),
    Scenario("synth ogb", f"synth --ogb made {SHAPE}"),
    Scenario("ingest shards", "ingest shards made", ("shards",), constants=BUCKETS, weight=2,
             whole="made"),
    Scenario("ingest parquet shards", "ingest parquet made", ("parquet",), constants=BUCKETS,
             whole="made"),
    Scenario("ingest overwrite", "ingest shards made --overwrite", ("shards",),
             older=f"synth made {SHAPE}", constants=BUCKETS, whole="made"),
    Scenario("ingest tables", "ingest tables made", ("tables",), constants=BUCKETS, whole="made"),
    Scenario("ingest ogb", "ingest ogb made", ("ogb",), constants=BUCKETS, whole="made"),
    Scenario("ingest bundle", "ingest bundle.npz made", ("bundle.npz",), whole="made"),
    Scenario("ingest typed bundle", "ingest typed.npz made", ("typed.npz",), whole="made"),
    Scenario("propagate", "propagate store --hops 4 --out hops", ("store",), whole="hops"),
    Scenario("propagate beside the store", "propagate store --hops 4", ("store",)),
    Scenario("propagate out of core", "propagate larger --hops 4 --out hops", ("larger",),
             constants=BLOCKS, weight=2, whole="hops"),
    Scenario("propagate at once", "propagate larger --hops 4 --out hops", ("larger",),
             constants={"scr.propagation.disk._plan:AT_ONCE_BYTES": 1,
                        "scr.storage._sequential_writer:DIRECT_BYTES": 1}, whole="hops"),
    Scenario("propagate overwrite", "propagate store --hops 3 --out hops --overwrite", ("store",),
             older="propagate store --hops 2 --out hops", whole="hops"),
    *_trainings(),
    Scenario("train overwrite",
             f"train store --encoder sgc --out run --overwrite --seed 1 {QUICK}", ("store",),
             older=f"train store --encoder sgc --out run {QUICK}", constants=SMALL, whole="run"),
    Scenario("train refit", f"train store --encoder sgc --out run --refit --resume {QUICK}",
             ("store",), constants=SMALL),
    Scenario("fit", "fit tables --out run --resume --set training.epochs=6", ("tables",),
             constants={**SMALL, "scr.fitting._splits:FEW_LABELS": 1}),
    Scenario("fit in folds", "fit tables --out run --resume --set training.epochs=2", ("tables",),
             constants=SMALL, weight=0.15),
    Scenario("fit two tables", "fit tables/nodes.csv tables/edges.csv --out run --resume --label "
             "label --predictions answers.csv --set training.epochs=6", ("tables",),
             constants={**SMALL, "scr.fitting._splits:FEW_LABELS": 1}),
    Scenario("predict csv", "predict run --out answers.csv", ("store", "run"), whole="answers.csv"),
    Scenario("predict parquet", "predict run --out answers.parquet --overwrite", ("store", "run"),
             older="predict run --out answers.parquet --probabilities none",
             whole="answers.parquet"),
    Scenario("smooth", "smooth run", ("store", "run"), whole="run/smooth"),
    Scenario("smooth overwrite", "smooth run --overwrite", ("store", "run"),
             older="smooth run --no-search", whole="run/smooth"),
    Scenario("suggest", "suggest run --out next.csv --count 5", ("store", "run"), whole="next.csv"),
    Scenario("report", "report run", ("store", "run")),
    Scenario("compare", "compare store --out result --encoders sgc,sign --regularizers none,scr "
             f"--seeds 2 {QUICK}", ("store",)),
    Scenario("compare overwrite", "compare store --out result --encoders sgc --regularizers "
             f"none,scr --seeds 1 --overwrite {QUICK}", ("store",),
             older="compare store --out result --encoders sgc --regularizers none --seeds 1 "
             + QUICK),
    Scenario("sweep", "sweep store --out result --encoder sgc --settings weight --values "
             f"weight=0.1,1 --regularizers scr --seeds 1 {QUICK}", ("store",)),
    Scenario("learning-curve", "learning-curve store --out result --encoder sgc --labels 2,4 "
             f"--seeds 1 {QUICK}", ("store",)),
    Scenario("tune", "tune store --out run --encoder sgc --regularizer none --time none --jobs 1 "
             "--resume --set training.epochs=2", ("store",), weight=0.25,
             constants={**SMALL, "scr.tuning._refine:MOST_PROPOSALS": 2}),
    Scenario("demo", "demo --out demo --seeds 1 --jobs 1", weight=0.25, constants={
        "scr.cli.commands.demo:SETTINGS": BRIEF, "scr.cli.commands.demo:FIT_SETTINGS": BRIEF}),
)  # fmt: skip
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@dataclass(frozen=True)
class Reference:
    """A scenario that nothing disturbed."""

    seconds: float
    before: dict[str, str]
    """What was in the folder before the command."""
    after: dict[str, str]
    sizes: dict[str, int]
    """Bytes of every file in the end."""


def reference(scenario: Scenario, shared: Path) -> Reference:
    """Run a scenario to its end, once for all workers."""
    name = scenario.name.replace(" ", "-")
    file = shared / f"{name}.json"
    with FileLock(shared / f"{name}.lock"):
        if not file.exists():
            folder, log = shared / "references" / name, shared / f"{name}.log"
            shutil.rmtree(folder, ignore_errors=True)
            scenario.set_up(shared, folder, log)
            before = tree(folder)
            ended = run_well(scenario.line, folder, log, scenario.constants)
            files = [path for path in folder.rglob("*") if path.is_file()]
            sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
            content = json.dumps([ended.seconds, before, tree(folder), sizes])
            file.write_text(content, encoding="utf-8")
            shutil.rmtree(folder)
    return Reference(*json.loads(file.read_text(encoding="utf-8")))


def given(shared: Path, name: str) -> Path:
    """A shared input, made when it is first asked for."""
    folder = shared / "inputs"
    folder.mkdir(exist_ok=True)
    with FileLock(shared / f"input-{name}.lock"):
        if not (folder / name).exists():
            if name == "run":
                given(shared, "store")
            maker = INPUTS[name]
            if isinstance(maker, str):
                run_well(maker, folder, shared / f"input-{name}.log")
            else:
                maker(folder / name)
    return folder / name


def _write_tables(folder: Path, nodes: int = 600, edges: int = 2400) -> None:
    """Two CSV files with numbers, classes and unknown labels."""
    import numpy as np

    random = np.random.default_rng(0)
    folder.mkdir()
    classes = random.integers(0, 3, nodes)
    values = random.standard_normal((nodes, 4)) + classes[:, None]
    known = random.random(nodes) < 0.5
    rows = [
        f"n{node},{'abc'[classes[node]] if known[node] else ''},"
        + ",".join(f"{value:.4f}" for value in values[node])
        for node in range(nodes)
    ]
    (folder / "nodes.csv").write_text("\n".join(["id,label,a,b,c,d", *rows]) + "\n")
    ends = random.integers(0, nodes, (edges, 2))
    lines = [f"n{source},n{target}" for source, target in ends]
    (folder / "edges.csv").write_text("\n".join(["source,target", *lines]) + "\n")


def _write_bundle(file: Path, nodes: int = 1500) -> None:
    """A graph of one type as an `.npz` file."""
    import numpy as np

    random = np.random.default_rng(0)
    labels = random.integers(0, 3, nodes)
    features = (random.standard_normal((nodes, 8)) + labels[:, None]).astype(np.float32)
    parts = np.array_split(random.permutation(nodes), 3)
    np.savez(
        file, edge_index=random.integers(0, nodes, (2, 6000)), x=features, y=labels,
        train_idx=parts[0], val_idx=parts[1], test_idx=parts[2],
    )  # fmt: skip


def _write_typed(file: Path, papers: int = 400, authors: int = 300) -> None:
    """Papers and authors as an `.npz` file."""
    import numpy as np

    random = np.random.default_rng(0)
    classes = random.integers(0, 3, papers)
    features = random.standard_normal((papers + authors, 8)).astype(np.float32)
    features[:papers] += classes[:, None]
    writes = random.integers(0, [[authors], [papers]], (2, 1500))
    cites = random.integers(0, papers, (2, 1200))
    parts = np.array_split(random.permutation(papers), 3)
    arrays: dict[str, Any] = {"rel:author:writes:paper": writes, "rel:paper:cites:paper": cites}
    arrays |= {"x:paper": features[:papers], "x:author": features[papers:]}
    np.savez(
        file, node_types=["paper", "author"], num_nodes=[papers, authors], target_type="paper",
        y=classes, train_idx=parts[0], val_idx=parts[1], test_idx=parts[2], **arrays,
    )  # fmt: skip


def _write_typed_store(folder: Path) -> None:
    given(folder.parents[1], "typed.npz")
    run_well("ingest typed.npz typed", folder.parent, folder.parents[1] / "input-typed.log")


INPUTS: Mapping[str, str | Callable[[Path], None]] = {
    "store": f"synth store {SHAPE}",
    "larger": f"synth larger {LARGER}",
    "shards": f"synth --source shards {SHAPE}",
    "parquet": f"synth --source parquet --shards parquet {SHAPE}",
    "ogb": f"synth --ogb ogb {SHAPE}",
    "run": f"train store --encoder sagn --out run {QUICK}",
    "tables": _write_tables,
    "bundle.npz": _write_bundle,
    "typed.npz": _write_typed,
    "typed": _write_typed_store,
}
"""The command, or the function, that makes each input."""

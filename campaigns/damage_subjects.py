"""What is damaged, and how it is used afterwards: sources, stores, hops, runs, work folders.

A subject is made once, copied for every case, damaged, and used as a command would use it. Using it
gives a digest of all that was read or computed; without damage, it is always the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import io
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from campaigns._fork import run_command

QUICK = ("--set", "training.epochs=4", "--set", "training.evaluate_every=1", "--set",
         "consistency.warmup=1")  # fmt: skip
SMALL = {"scr.training._loop:CHECKPOINT_SECONDS": 0.0}
BUCKETS = {
    "scr.ingest._plan:LARGE_EDGES": 1,
    "scr.ingest._row_writer:CHECKPOINT_BYTES": 1,
    "scr.ingest._plan:LARGEST_CHUNK": 1 << 12,
}
STOPPED = 7


class Refused(Exception):
    """A command ended with a message for its user."""


class Unexpected(Exception):
    """A command ended with an error that nobody expected."""


@dataclass(frozen=True)
class Subject:
    """Something on disk that is read again."""

    name: str
    make: Callable[[Path], object]
    """Fills a new folder."""
    use: Callable[[Path], str]
    """Reads such a folder; returns a digest of what came of it."""
    is_ours: bool = True
    """Whether it has checksums: other content must be refused. Sources and records have none."""
    weight: float = 1.0
    within: str = ""
    """The folder below it whose files are damaged; empty: all of it."""
    without: str = "path.txt"
    """What of it is left as it is: an input, or where to look."""
    constants: Mapping[str, Any] = field(default_factory=dict)

    def files(self, folder: Path) -> list[Path]:
        """Files that may be damaged, in order."""
        kept = folder / self.without
        return sorted(
            each
            for each in (folder / self.within).rglob("*")
            if each.is_file()
            and not each.name.endswith("lock")
            and kept not in (each, *each.parents)
        )


def digest(*parts: Any) -> str:
    """A hash of arrays, texts and what JSON can say."""
    running = hashlib.blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, np.ndarray):
            running.update(f"{part.dtype.str}{part.shape}".encode())
            running.update(np.ascontiguousarray(part).tobytes() if part.dtype.kind != "O" else b"")
            if part.dtype.kind == "O":
                running.update(repr(part.tolist()).encode())
        elif isinstance(part, bytes):
            running.update(part)
        else:
            running.update(repr(part).encode("utf-8", "surrogatepass"))
    return running.hexdigest()


def graph_digest(graph: Any) -> str:
    """All that a graph holds."""
    parts: list[Any] = [graph.class_names, graph.num_nodes, graph.name]
    for name in ("indptr", "indices", "weights", "labels", "train", "valid", "test", "ids"):
        value = getattr(graph, name, None)
        parts.append(None if value is None else np.asarray(value))
    features = graph.features
    if features is not None and not isinstance(features, dict):
        whole = [features] if not hasattr(features, "tocsr") else [
            features.tocsr().data, features.tocsr().indices, features.tocsr().indptr, features.shape
        ]  # fmt: skip
        parts += [part if isinstance(part, tuple) else np.asarray(part) for part in whole]
    relations = getattr(graph, "relations", None) or ()
    return digest(*parts, *(repr(relation)[:200] for relation in relations))


@contextlib.contextmanager
def constants(values: Mapping[str, Any]) -> Iterator[None]:
    """Other values for constants of scr, so that small inputs take the way of large ones."""
    before = []
    for name, value in values.items():
        module, _, attribute = name.partition(":")
        holder = importlib.import_module(module)
        before.append((holder, attribute, getattr(holder, attribute)))
        setattr(holder, attribute, value)
    try:
        yield
    finally:
        for holder, attribute, value in before:
            setattr(holder, attribute, value)


def command(folder: Path, *words: str) -> None:
    """Run a command in this process; `Refused` and `Unexpected` as it says them."""
    from scr.cli import main

    _keep_parser()
    output, before = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            main(list(words))
    except SystemExit as end:
        said = output.getvalue().strip()
        if end.code == 2:
            raise Refused(said) from None
        if end.code not in (0, None):
            raise Unexpected(f"exit code {end.code}: {said[-600:]}") from None
    finally:
        os.chdir(before)


@functools.cache
def _keep_parser() -> None:
    """Let typer make the parser of all commands once; a process of scr needs it only once."""
    import typer.main

    typer.main.get_command = functools.cache(typer.main.get_command)


def in_child(work: Callable[[], object]) -> None:
    """Do something in a fork, so that this process never begins what a fork must not inherit."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - a child must not return into its parent's code
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("a subject could not be made")


def in_process(
    folder: Path, *words: str, stop: int = 0, values: Mapping[str, Any] | None = None
) -> int:
    """Run a command in a process of its own; returns how many entries it has made or moved.

    Args:
        stop: Before which entry it is to end at once; 0: it runs to its end.
        values: Of constants.
    """
    log = folder.with_name(folder.name + ".log")
    counts = folder.with_name(folder.name + ".count")

    def watch() -> None:
        count, here = 0, folder.absolute()
        file = os.open(counts, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def hook(event: str, given: tuple[Any, ...]) -> None:
            nonlocal count
            is_open = event == "open" and isinstance(given[2], int)
            if event == "os.rename" or (is_open and given[2] & (os.O_CREAT | os.O_RDWR)):
                is_named = not isinstance(given[0], int)
                path = Path(os.fsdecode(given[0])).absolute() if is_named else Path()
                count += here in path.parents
                os.pwrite(file, str(count).encode(), 0)
                if 0 < count == stop:
                    os._exit(STOPPED)

        sys.addaudithook(hook)

    ended = run_command(words, folder, log, constants=values, before=watch, timeout=600)
    if ended.code != (STOPPED if stop else 0):
        raise RuntimeError(f"scr {' '.join(words)}: {ended.output}")
    log.unlink()
    made = int(counts.read_text() or 0)
    counts.unlink()
    return made


def interrupted(folder: Path, *words: str, share: float, values: Mapping[str, Any]) -> None:
    """Leave what a command leaves that is killed when a share of its files is in place."""
    copy = folder.with_name(folder.name + ".whole")
    shutil.copytree(folder, copy)
    count = in_process(copy, *words, values=values)
    shutil.rmtree(copy)
    in_process(folder, *words, stop=max(1, round(share * count)), values=values)


def random_graph(nodes: int = 60) -> Any:
    """A small graph with everything that a graph may have."""
    from scr.graph import Graph

    random = np.random.default_rng(0)
    labels = random.integers(0, 3, nodes)
    features = (random.standard_normal((nodes, 6)) + labels[:, None]).astype(np.float32)
    parts = np.split(random.permutation(nodes), [nodes // 3, 2 * nodes // 3])
    labels[parts[2][:4]] = -1
    return Graph.from_edges(
        random.integers(0, nodes, (2, 4 * nodes)), num_nodes=nodes, features=features,
        labels=labels, train=parts[0], valid=parts[1], test=parts[2][4:],
        ids=[f"n{number}" for number in range(nodes)], class_names=("ant", "bee", "cat"),
        name="small",
    )  # fmt: skip


def typed_graph() -> Any:
    """A graph of two types."""
    from scr.graph import Graph

    random = np.random.default_rng(0)
    labels = np.arange(30) % 3
    relations = {
        ("author", "writes", "paper"): random.integers(0, [[20], [30]], (2, 80)),
        ("paper", "cites", "paper"): random.integers(0, 30, (2, 60)),
    }
    features = {"paper": (random.standard_normal((30, 6)) + labels[:, None]).astype(np.float32)}
    return Graph.from_relations(
        relations, features=features, labels=labels, target="paper", train=np.arange(12),
        valid=np.arange(12, 24), test=np.arange(24, 30), num_nodes={"paper": 30, "author": 20},
        name="typed",
    )  # fmt: skip


def _fitted(graph: Any, encoder: str = "sign", **sections: Any) -> Any:
    from scr.classifier import NodeClassifier

    settings = {"name": encoder, "hidden": 8} if encoder != "sgc" else {"name": encoder}
    return NodeClassifier(settings, "none", preset="none", epochs=2, **sections).fit(graph)


def _store(folder: Path) -> None:
    random_graph().save(folder / "store")


def _typed_store(folder: Path) -> None:
    typed_graph().save(folder / "store")


def _use_store(folder: Path) -> str:
    from scr.sources import load_graph

    graph = load_graph(folder / "store")
    return digest(graph_digest(graph), np.asarray(_fitted(graph, "sgc").predict_proba()))


def _use_typed_store(folder: Path) -> str:
    from scr.sources import load_graph

    return graph_digest(load_graph(folder / "store"))


def _verify_store(folder: Path) -> str:
    command(folder, "verify", "store")
    return _arrays(folder / "store")


def _hops(folder: Path) -> None:
    in_child(lambda: _store(folder))
    in_process(folder, "propagate", "store", "--hops", "2")


def _use_hops(folder: Path) -> str:
    from scr.sources import load_graph

    fitted = _fitted(load_graph(folder / "store"), propagation={"hops": 2})
    return digest(np.asarray(fitted.predict_proba()))


def _run(folder: Path) -> None:
    graph = random_graph()
    store = graph.save(folder.parent / f"store of {folder.name}")
    _fitted(graph).save(folder / "run", source=str(store))


def _use_run(folder: Path) -> str:
    from scr.prediction import open_run

    predictor = open_run(folder / "run")
    return digest(
        predictor.probabilities(None, None), predictor.model.class_names,
        predictor.set_limits(0.8, per_class=False), predictor.summary()["valid_accuracy"],
    )  # fmt: skip


def _use_page(folder: Path) -> str:
    from scr.report.page import run_page

    return digest(run_page(folder / "run").replace(str(folder), ""))


def _verify_run(folder: Path) -> str:
    command(folder, "verify", "run")
    files = [file for file in sorted((folder / "run").rglob("*")) if file.is_file()]
    return digest(*(file.read_bytes() for file in files if file.suffix not in (".html",)
                    and not file.name.startswith(("verified", "checksums"))))  # fmt: skip


TABLES = {
    "nodes.csv": "id,label,size,color\n" + "".join(
        f"n{n},{'xyz'[n % 3] if n % 4 else ''},{n % 3 + n / 100},{'red' if n % 2 else 'blue'}\n"
        for n in range(48)
    ),
    "edges.csv": "source,target\n" + "".join(
        f"n{n},n{(n + step) % 48}\n" for n in range(48) for step in (1, 3)
    ),
}  # fmt: skip


def _write_tables(folder: Path) -> None:
    for name, text in TABLES.items():
        (folder / name).write_text(text)


def _fit_run(folder: Path) -> None:
    _write_tables(folder)
    words = ("fit", "nodes.csv", "edges.csv", "--label", "label", "--out", "run")
    words += ("--set", "training.epochs=2", "--set", "encoder.name=sign")
    in_process(folder, *words, values={"scr.tuning._tune:_cores": lambda: 1})


def _use_fit_run(folder: Path) -> str:
    import pyarrow as pa

    from scr.classifier import NodeClassifier

    classifier = NodeClassifier.load(folder / "run")
    nodes = pa.table({"id": ["new"], "size": [1.5], "color": ["red"]})
    edges = pa.table({"source": ["new"], "target": ["n3"]})
    new = classifier.predict_new(nodes, edges)
    return digest(classifier.predict_proba(), new.probabilities, new.class_names)


def _smoothed_run(folder: Path) -> None:
    in_child(lambda: _run(folder))
    in_process(folder, "smooth", "run")


def _checkpoint(folder: Path) -> None:
    in_child(lambda: _store(folder))
    interrupted(folder, *TRAIN, share=0.5, values=SMALL)


TRAIN = ("train", "store", "--encoder", "sign", "--out", "run", "--resume", "--preset",
         "none", "--set", "encoder.hidden=8", *QUICK)  # fmt: skip


def _predictions(file: Path) -> str:
    import pyarrow.parquet as pq

    return digest(pq.read_table(file).to_pydict())


def _resume_training(folder: Path) -> str:
    command(folder, *TRAIN)
    return _predictions(folder / "run" / "predictions.parquet")


PROPAGATE = ("propagate", "store", "--hops", "2", "--memory", "2GiB", "--out", "hops")


def _ingest(folder: Path) -> tuple[str, ...]:
    """The command; what is left of it is resumed only for the same source, at the same path."""
    return "ingest", (folder / "path.txt").read_text(), "made", "--memory", "2GiB"


def _ingest_work(folder: Path) -> None:
    source = folder.parent / f"source of {folder.name}"
    (folder / "path.txt").write_text(str(source))
    in_process(folder, "synth", "--source", str(source), "--nodes", "400", "--edges", "1600",
               "--features", "4", "--classes", "3")  # fmt: skip
    interrupted(folder, *_ingest(folder), share=0.7, values=BUCKETS)


def _arrays(folder: Path) -> str:
    from scr.storage import load_array

    return digest(*(load_array(file, what="it") for file in sorted(folder.glob("*.npy"))))


def _resume_ingest(folder: Path) -> str:
    command(folder, *_ingest(folder))
    return _arrays(folder / "made")


def _propagate_work(folder: Path) -> None:
    in_child(lambda: _store(folder))
    interrupted(folder, *PROPAGATE, share=0.7, values={})


def _resume_propagate(folder: Path) -> str:
    command(folder, *PROPAGATE)
    return _arrays(folder / "hops")


COMPARE = ("compare", "store", "--encoders", "sgc", "--regularizers", "none,scr", "--seeds", "1",
           "--jobs", "1", "--out", "result", *QUICK)  # fmt: skip
SWEEP = ("sweep", "store", "--out", "result", "--encoder", "sgc", "--settings", "weight",
         "--values", "weight=0.1,1", "--regularizers", "scr", "--seeds", "1", *QUICK)  # fmt: skip
CURVE = ("learning-curve", "store", "--out", "result", "--encoder", "sgc", "--labels", "2,4",
         "--seeds", "1", *QUICK)  # fmt: skip

EFFICIENCY = ("efficiency", "store", "--out", "result", "--encoder", "sgc", "--methods",
              "scr,scr-m", "--reference", "scr", "--seeds", "1", *QUICK)  # fmt: skip
TUNE = ("tune", "store", "--out", "run", "--encoder", "sgc", "--regularizer", "none", "--time",
        "none", "--jobs", "1", *QUICK[:2])  # fmt: skip


def _experiment(*words: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        in_child(lambda: _store(folder))
        in_process(folder, *words)

    return make


def _again(*words: str) -> Callable[[Path], str]:
    def use(folder: Path) -> str:
        command(folder, *words)
        return "done"

    return use


def _corpus() -> list[Subject]:
    from tests.sources.corpus import CORPUS

    from scr.sources import load_graph
    from scr.tables import read_table_graph

    def subject(name: str) -> Subject:
        def make(folder: Path) -> None:
            (folder / "source").mkdir()
            paths = [CORPUS[name](folder / "source")]
            if name.startswith("fit-"):  # by their names: one of them may be removed
                paths = sorted(paths[0].iterdir(), reverse=True)
            (folder / "path.txt").write_text(
                "\n".join(str(path.relative_to(folder)) for path in paths)
            )

        def use(folder: Path) -> str:
            paths = [folder / line for line in (folder / "path.txt").read_text().splitlines()]
            if name.startswith("fit-"):
                return graph_digest(read_table_graph(*paths).graph)
            return graph_digest(load_graph(paths[0]))

        weight = 2.0 if name in ("bundle", "planetoid", "tables-csv", "fit-csv", "shards") else 1.5
        return Subject(f"source {name}", make, use, False, weight, "source")

    return [subject(name) for name in CORPUS]


def subjects() -> list[Subject]:
    """All of them."""
    compared = _experiment(*COMPARE)
    return [
        *_corpus(),
        Subject("store", _store, _use_store, weight=10, within="store"),
        Subject("store of types", _typed_store, _use_typed_store, weight=4, within="store"),
        Subject("store, verified", _store, _verify_store, weight=3, within="store"),
        Subject("hops", _hops, _use_hops, weight=1, within="store/hops"),
        Subject("run", _run, _use_run, weight=8),
        Subject("page of a run", _smoothed_run, _use_page, False, 5, "run"),
        Subject("run, verified", _run, _verify_run, weight=2),
        Subject("run of tables", _fit_run, _use_fit_run, weight=0.6, within="run"),
        Subject("tuned run", _experiment(*TUNE), _use_run, weight=0.2, within="run"),
        Subject("checkpoint", _checkpoint, _resume_training, weight=0.3, within="run",
                constants=SMALL),
        Subject("ingest, interrupted", _ingest_work, _resume_ingest, weight=1,
                constants=BUCKETS),
        Subject("propagate, interrupted", _propagate_work, _resume_propagate, weight=1,
                without="store"),
        Subject("comparison", compared, _again("report", "result"), False, 0.3, "result"),
        Subject("comparison, resumed", compared, _again(*COMPARE), False, 0.1, "result"),
        Subject("sweep, resumed", _experiment(*SWEEP), _again(*SWEEP), False, 0.05, "result"),
        Subject("curve, resumed", _experiment(*CURVE), _again(*CURVE), False, 0.05, "result"),
        Subject("efficiency, resumed", _experiment(*EFFICIENCY), _again(*EFFICIENCY), False, 0.05,
                "result"),
    ]  # fmt: skip


def by_name() -> dict[str, Subject]:
    """Subjects by their names."""
    return {subject.name: subject for subject in subjects()}


def seal_again(folder: Path, file: Path) -> str:
    """Forge the checksums of a damaged file, so that only its content can tell."""
    for holder in [file.parent, *file.parent.parents]:
        manifest, sums = holder / "manifest.json", holder / "checksums.json"
        if sums.is_file() and file != sums:
            content = json.loads(sums.read_text())
            content[file.relative_to(holder).as_posix()] = hashlib.blake2b(
                file.read_bytes(), digest_size=16
            ).hexdigest()
            sums.write_text(json.dumps(content))
            return f"forges {sums.name}"
        if manifest.is_file():
            content = json.loads(manifest.read_text())
            if file.suffix == ".npy":
                array = np.load(file, allow_pickle=False)
                hashed = xxhash.xxh3_128(np.ascontiguousarray(array).tobytes())
                content["arrays"][file.stem] = {
                    "shape": list(array.shape), "dtype": array.dtype.str, "bytes": array.nbytes,
                    "checksums": [hashed.hexdigest()] if array.nbytes else [],
                }  # fmt: skip
            text = json.dumps(content["metadata"], sort_keys=True).encode()
            if "metadata_checksum" in content:
                content["metadata_checksum"] = hashlib.blake2b(text, digest_size=8).hexdigest()
            manifest.write_text(json.dumps(content))
            return f"forges {manifest.name}"
        if holder == folder:
            break
    return ""

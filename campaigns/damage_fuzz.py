"""Coverage-guided fuzzing, by atheris: inputs that reach new lines of a reader are changed further.

atheris is no dependency: without it, the campaign is skipped. A case is a short run of libFuzzer
on one reader, in a process of its own, that begins with the small sources of the corpus.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from campaigns._campaign import Campaign, Result

SECONDS = 20
"""Of one run."""
MEGABYTES = 3_000
ROOT = Path(__file__).parents[1]


def _array(folder: Path) -> object:
    from scr.storage import load_array

    return load_array(folder / "input", what="the array")


def _arrays(folder: Path) -> object:
    from scr.storage import load_arrays

    return load_arrays(folder / "input", what="the arrays")


def _manifest(folder: Path) -> object:
    from scr.storage import read_manifest

    return read_manifest(folder)


def _model(folder: Path) -> object:
    from scr.prediction import open_run

    return open_run(folder / "run")


def _table(folder: Path) -> object:
    from scr.tables import read_table_graph

    return read_table_graph(folder / "nodes.csv", folder / "edges.csv")


def _planetoid(folder: Path) -> object:
    from scr.sources import load_graph

    return load_graph(folder / "ind.toy")


def _bundle(folder: Path) -> object:
    from scr.sources import load_graph

    return load_graph(folder / "bundle.npz")


READERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "npy": ("shards", "features.npy:input", _array),
    "npz": ("bundle", "bundle.npz:input", _arrays),
    "bundle": ("bundle", "bundle.npz:bundle.npz", _bundle),
    "pickled graph": ("planetoid", "ind.toy.graph:ind.toy.graph", _planetoid),
    "pickled matrix": ("planetoid", "ind.toy.allx:ind.toy.allx", _planetoid),
    "csv": ("fit-csv", "nodes.csv:nodes.csv", _table),
    "manifest": ("store", "store/manifest.json:manifest.json", _manifest),
    "model": ("run", "run/model.safetensors:run/model.safetensors", _model),
}
"""By name: a subject, its file and where it is put, and who reads it."""


class Fuzz(Campaign):
    """Runs of libFuzzer, one after the other, on each reader."""

    name = "fuzz"
    title = "coverage-guided fuzzing of binary readers, models, manifests and tables (atheris)"
    cases = 24
    minutes = 6.0
    seconds = SECONDS * 10.0
    good = frozenset({"nothing found"})

    def skip(self) -> str | None:
        """Whether atheris is there."""
        if importlib.util.find_spec("atheris") is None:
            return "atheris is not installed (`pip install atheris`)"
        return None

    def prepare(self, shared: Path) -> None:
        """Make what readers read."""
        from campaigns.damage_subjects import by_name

        known = by_name()
        for name in {subject for subject, _, _ in READERS.values()}:
            (shared / name).mkdir()
            known[name if name in known else f"source {name}"].make(shared / name)

    def start(self, shared: Path) -> None:
        """Note where they are."""
        self.shared = shared

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Fuzz one reader for a while."""
        names = list(READERS)
        name = names[number % len(names)]
        line = [
            sys.executable, "-m", "campaigns.damage_fuzz", name, str(self.shared), str(folder),
            str(int(random.integers(1, 2**31))),
        ]  # fmt: skip
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        ran = subprocess.run(
            line, cwd=ROOT, capture_output=True, text=True, errors="replace",
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        said = ran.stdout + ran.stderr
        counts = [int(each) for each in re.findall(r"^#(\d+)", said, re.MULTILINE)]
        inputs = max(counts, default=0)
        if ran.returncode == 0 and inputs:
            return Result(outcome="nothing found", kind=name, counts={"inputs": inputs})
        kept = sorted(folder.glob("found-*"))
        error = [
            each
            for each in said.splitlines()
            if re.match(r"\s*(\w+Error|\w+Exception|==\d+==)", each)
        ]
        detail = " | ".join(error[:4]) or said[-600:]
        shown = kept[0].read_bytes()[:400].hex() if kept else ""
        return Result(
            outcome="found", kind=name, what=shown, detail=detail[:900], counts={"inputs": inputs}
        )


@contextmanager
def _quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        yield


def main(name: str, shared: str, work: str, seed: str) -> None:
    """Fuzz a reader in this process, which ends with it."""
    import shutil

    import atheris

    subject, places, read = READERS[name]
    file, _, target = places.partition(":")
    source = Path(shared) / subject
    source = source / "source" if (source / "source").is_dir() else source
    folder = Path(work) / "it"
    if name == "manifest":
        shutil.copytree(source / "store", folder)
    else:
        shutil.copytree(source, folder)
    corpus = Path(work) / "corpus"
    corpus.mkdir()
    (corpus / "whole").write_bytes((source / file).read_bytes())
    with atheris.instrument_imports(include=["scr"]):
        for package in ("prediction", "sources", "storage", "tables"):
            importlib.import_module(f"scr.{package}")
        with _quiet(), suppress(Exception):
            read(folder)  # packages import their modules when these are first used
    from scr.errors import SCRError

    known: tuple[Any, ...] = (SCRError,)

    def one(data: bytes) -> None:
        (folder / target).write_bytes(data)
        try:
            read(folder)
        except known:
            return
        except OSError as error:
            if error.filename is None:
                raise

    with _quiet():
        read_once = (folder / target).exists()
        assert read_once or name in ("npy", "npz")
        atheris.Setup(
            [sys.argv[0], str(corpus), f"-max_total_time={SECONDS}", f"-seed={seed}", "-timeout=20",
             f"-rss_limit_mb={MEGABYTES}", "-malloc_limit_mb=1000", "-max_len=20000",
             f"-artifact_prefix={work}/found-"],
            one,
        )  # fmt: skip
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])

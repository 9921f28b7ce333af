"""Compiled loops where nothing may be written: read-only installations without a home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import scr
from scr.compute import compiled


def _total(values, out):
    for value in values:
        out[0] += value


@pytest.mark.parametrize("method", ["save", "load"])
def test_a_cache_that_fails_when_it_is_used_is_done_without(method, monkeypatch):
    from numba.core.caching import IndexDataCacheFile

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, method, fail)
    out = np.zeros(1)
    compiled(_total)(np.arange(4.0), out)
    assert out[0] == 6


WORK = """
import sys
sys.path.insert(0, sys.argv[1])
import scr
assert scr.__file__.startswith(sys.argv[1])
try:
    open(sys.argv[1] + "/scr/new", "w")
except PermissionError:
    pass
else:
    sys.exit("the folder can be written")
from scr.cli import main
from scr.cli.commands import demo
from scr.fitting import _splits
demo.SETTINGS = demo.FIT_SETTINGS = {"training": {"epochs": 1}}
_splits.FEW_LABELS = 1  # no folds, which take long
for line in sys.argv[2:]:
    try:
        main(line.split())
    except SystemExit as end:
        assert not end.code, line
"""


LINES = (
    "synth made --nodes 200 --edges 400 --features 4 --classes 2",
    "synth --source shards --nodes 200 --edges 400 --features 4 --classes 2",
    "ingest shards store",
    "propagate store --hops 1",
    "train store --out run --encoder sign --set training.epochs=1",
    "predict run --out table.csv",
    "fit tables --out fitted --set training.epochs=1",
    "demo --out demo --seeds 1 --jobs 1",
)
MADE = ("made", "store", "run", "table.csv", "fitted", "demo/report.html")


def _obeying_permissions() -> list[str]:
    """What a command begins with, so that folders without the right to write are just that."""
    if not hasattr(os, "getuid"):
        pytest.skip("permissions as POSIX has them")
    if os.getuid() != 0:
        return []
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("root may write everywhere")
    return [program, "--bounding-set=-dac_override", "--inh-caps=-dac_override", "--"]


def _write_tables(folder: Path) -> None:
    folder.mkdir()
    nodes = [f"{node},{'ab'[node % 2]},{node % 7}" for node in range(200)]
    (folder / "nodes.csv").write_text("\n".join(["id,label,x", *nodes]))
    edges = [f"{node},{(node + 2) % 200}" for node in range(200)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))


@pytest.mark.parametrize(
    ("lines", "made"),
    [(LINES[:6], MADE[:4]), pytest.param(LINES, MADE, marks=pytest.mark.stress)],
)
def test_a_read_only_installation_without_a_home(tmp_path, lines, made):
    prefix = _obeying_permissions()
    installed, work = tmp_path / "site", tmp_path / "work"
    shutil.copytree(
        Path(scr.__file__).parent, installed / "scr", ignore=shutil.ignore_patterns("__pycache__")
    )
    work.mkdir()
    _write_tables(work / "tables")
    folders = [installed, *(each for each in installed.rglob("*") if each.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("NUMBA_", "XDG_", "MPL", "PYTHON"))
    }  # fmt: skip
    environment |= {"HOME": "/nonexistent", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*prefix, sys.executable, "-c", WORK, str(installed), *lines], cwd=work, env=environment,
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    for folder in folders:
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert all((work / name).exists() for name in made), done.stderr
    assert not [*installed.rglob("__pycache__")]

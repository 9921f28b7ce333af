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
import os, sys
os.setgid(65534); os.setuid(65534)
sys.path.insert(0, sys.argv[1])
import scr
assert scr.__file__.startswith(sys.argv[1])
from scr.cli import main
for line in (
    "synth store --nodes 300 --edges 900 --features 8",
    "ingest store again",
    "propagate store --hops 1",
    "train store --out run --encoder sign --set training.epochs=1",
    "predict run --out table.csv",
):
    try:
        main(line.split())
    except SystemExit as end:
        assert not end.code, line
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="root becomes nobody")
def test_a_read_only_installation_without_a_home(tmp_path):
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 0o001 and folder != folder.parent:
            shown = folder.stat().st_mode
            folder.chmod(shown | 0o011)
    installed, work = tmp_path / "site", tmp_path / "work"
    shutil.copytree(
        Path(scr.__file__).parent, installed / "scr", ignore=shutil.ignore_patterns("__pycache__")
    )
    work.mkdir(mode=0o777)
    work.chmod(0o777)
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("NUMBA_", "XDG_", "MPL")) and name != "PYTHONPATH"
    }  # fmt: skip
    environment |= {"HOME": "/nonexistent", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(installed)], cwd=work, env=environment,
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    if "Permission denied" in done.stderr and "site-packages" in done.stderr:
        pytest.skip("nobody may not read the libraries of this installation")
    assert done.returncode == 0, done.stderr
    assert (work / "table.csv").exists()
    assert not [*installed.rglob("__pycache__")]

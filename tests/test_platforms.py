"""On systems without calls that only POSIX or Linux has: every module imports, and a run trains."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MISSING = """
import os, signal, sys
# Libraries choose their own way on each system; only this package is tested.
import filelock, joblib, matplotlib.pyplot, multiprocessing.util, numba, pyarrow.parquet
import rich.progress, safetensors, scipy.sparse, sklearn.cluster, torch, typer
try:
    import ray
except ImportError:  # an extra
    ray = None
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "fdatasync", "getuid", "posix_fallocate", "pread", "preadv", "pwrite",
             "register_at_fork", "sched_getaffinity", "sysconf"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("pthread_sigmask", "SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK", "SIGKILL", "SIGUSR1"):
    delattr(signal, name)
from pathlib import Path
read_text = Path.read_text
def without_proc(path, *arguments, **settings):
    if str(path).startswith(("/proc", "/sys")):
        raise FileNotFoundError(2, "not here", str(path))
    return read_text(path, *arguments, **settings)
Path.read_text = without_proc
"""
IMPORTS = """
import importlib, pkgutil, scr
for module in pkgutil.walk_packages(scr.__path__, "scr."):
    if not module.name.endswith("__main__") and (ray or not module.name.endswith("._ray")):
        importlib.import_module(module.name)
print(len([name for name in sys.modules if name.startswith("scr.")]), flush=True)
"""
TRAINS = """
from scr.cli import main
def call(*words):
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        assert not end.code, words
folder = Path(sys.argv[1])
call("synth", folder / "store", "--nodes", 300, "--edges", 900, "--features", 4, "--classes", 3)
call("propagate", folder / "store", "--hops", 2, "--memory", "1GiB", "--rows", "labeled")
call("train", folder / "store", "--encoder", "sign", "--out", folder / "run",
     "--set", "training.epochs=2", "--set", "propagation.hops=2")
call("compare", folder / "store", "--encoders", "sgc", "--regularizers", "none,scr", "--seeds", 1,
     "--set", "training.epochs=1", "--out", folder / "result")
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """One that imports, and then trains; with its folder."""
    folder = tmp_path_factory.mktemp("without-posix")
    done = subprocess.run(
        [sys.executable, "-c", MISSING + IMPORTS + TRAINS, str(folder)], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return done, folder


def test_every_module_imports_without_what_only_posix_has(process):
    done, _ = process
    files = [path for path in (SOURCE / "scr").rglob("*.py") if path.name != "__main__.py"]
    assert done.stdout, done.stderr
    assert int(done.stdout.splitlines()[0]) == len(files) - 1  # all but `scr` itself


def test_a_graph_is_written_propagated_and_trained_on_without_them(process):
    done, folder = process
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["epochs"] == 2
    assert len(json.loads((folder / "result" / "compare.json").read_text())["runs"]) == 2

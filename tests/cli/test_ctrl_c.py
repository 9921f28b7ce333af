"""Ctrl-C in every long command: what is left and how to resume, in one line and without traceback.

Each command is a process of its own, stopped in a call that waits to be stopped.
"""

import signal
import subprocess
import sys
import time

import pytest

from scr.cli import main

CODE = """
import importlib, sys, time
from pathlib import Path
module, _, name = sys.argv[1].rpartition(":")
marker = Path(sys.argv[2])
def wait(*arguments, **settings):
    marker.touch()
    time.sleep(120)
owner = importlib.import_module(module)
*inner, name = name.split(".")
for each in inner:
    owner = getattr(owner, each)
setattr(owner, name, wait)
from scr.cli import main
sys.argv = ["scr", *sys.argv[3:]]
main()
"""
SYNTH = ["--nodes", "60", "--edges", "120", "--features", "4", "--classes", "3"]
FIT, RESUMES = "scr:NodeClassifier.fit", "Continue with the same command: scr "
CASES = {
    "train": ("scr:NodeClassifier.write_into", "train STORE --out OUT --encoder sgc --set "
              "training.epochs=1", "continue with the same command and --resume"),
    "tune": ("scr.tuning._race:run_trial", "tune STORE --out OUT --jobs 1 --encoder sgc",
             "continue with the same command and --resume"),
    "compare": (FIT, "compare STORE --out OUT", RESUMES),
    "sweep": (FIT, "sweep STORE --out OUT", RESUMES),
    "efficiency": (FIT, "efficiency STORE --out OUT", RESUMES),
    "reproduce": (FIT, "reproduce hu-2020-base-mlp-products --graph STORE --out OUT", RESUMES),
    "demo": (FIT, "demo --out OUT --jobs 1", RESUMES),
    "propagate": ("scr.propagation.disk:propagate_to_disk", "propagate STORE --out OUT",
                  "resumed by the same command: scr "),
    "ingest": ("scr.ingest:ingest", "ingest STORE OUT", "resumed by the same command"),
    "predict": ("scr.prediction:Predictor.write_predictions", "predict RUN --out OUT.csv",
                "nothing was written"),
    "smooth": ("scr.prediction.smoothing:smooth_predictions", "smooth RUN", "nothing was written"),
    "synth": ("scr.synth:write_synth_store", "synth OUT", "nothing was written"),
    "synth --source": ("scr.synth:write_synth_shards", "synth --source OUT",
                       "resumed by the same command"),
    "download": ("scr.sources:download", "download ogbn-arxiv --yes --to OUT",
                 "The same command resumes"),
}  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a store and a finished run."""
    folder = tmp_path_factory.mktemp("work")
    for words in (
        ["synth", folder / "store", *SYNTH],
        ["train", folder / "store", "--encoder", "sgc", "--set", "training.epochs=1", "--out",
         folder / "run"],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        assert not caught.value.code
    return folder


ALWAYS = ("train", "sweep", "ingest", "predict")
"""One of each kind; `make stress` has all of them."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, marks=[] if each in ALWAYS else pytest.mark.stress) for each in CASES],
)
def test_a_command_that_is_stopped_says_what_is_left(case, work, tmp_path):
    waits, line, said = CASES[case]
    names = {"STORE": work / "store", "RUN": work / "run", "OUT": tmp_path / "out"}
    words = [str(names.get(word, word)) for word in line.split()]
    before = sorted((work / "run").rglob("*"))
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, waits, str(tmp_path / "waits"), *words], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # A shell that runs the tests in the background has them ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not (tmp_path / "waits").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    (sentence,) = [each for each in printed.splitlines() if each.startswith("Stopped")]
    assert said in sentence
    if "nothing was written" in said:
        assert not (tmp_path / "out").exists()
        assert sorted((work / "run").rglob("*")) == before

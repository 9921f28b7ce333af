"""Names of folders and classes that look like markup are text; names not in UTF-8 are refused."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import make_random_graph
from typer.testing import CliRunner

from scr.cli import app
from scr.graph import write_store

NAMES = ("[bold]x", "r[/x]", "{task}[red")
QUICK = ("--set", "training.epochs=2", "--set", "training.evaluate_every=1")
ONE = ("--encoder", "sgc", "--seeds", 1)
COMMANDS = {
    "ingest": ("ingest", "STORE", "OUT"),
    "propagate": ("propagate", "STORE", "--hops", 1, "--out", "OUT"),
    "train": ("train", "STORE", "--encoder", "sign", *QUICK, "--out", "OUT"),
    "predict": ("predict", "RUN", "--out", "OUT.csv"),
    "suggest": ("suggest", "RUN", "--count", 2, "--out", "OUT.csv"),
    "export": ("export", "RUN", "--out", "OUT.onnx"),
    "tune": ("tune", "STORE", "--encoder", "sgc", "--time", "1s", "--jobs", 1, *QUICK,
             "--out", "OUT"),
    "fit": ("fit", "TABLES", *QUICK, "--out", "OUT"),
    "compare": ("compare", "STORE", "--encoders", "sgc", "--regularizers", "none,scr", "--seeds", 1,
                *QUICK, "--out", "OUT"),
    "sweep": ("sweep", "STORE", *ONE, "--settings", "weight", "--values", "weight=0.1,1",
              "--regularizers", "scr", *QUICK, "--out", "OUT"),
    "learning-curve": ("learning-curve", "STORE", *ONE, "--labels", "2,4", *QUICK, "--out", "OUT"),
    "efficiency": ("efficiency", "STORE", *ONE, "--methods", "scr,rlu", *QUICK, "--out", "OUT"),
    "synth": ("synth", "OUT", "--nodes", 60, "--edges", 100, "--features", 4, "--classes", 2),
}  # fmt: skip
"""Commands that write; `demo` and `reproduce` run those above on graphs of their own."""


def scr(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_tables(folder):
    folder.mkdir(parents=True)
    rows = [f"n{node},{'[/x]' if node % 2 else '[red]'},{node % 2}" for node in range(60)]
    (folder / "nodes.csv").write_text("\n".join(["id,[/label],[b]", *rows]) + "\n")
    edges = [f"n{node},n{(node + 2) % 60}" for node in range(60)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A store and a run with classes, and tables, in a folder, that all look like markup."""
    folder = tmp_path_factory.mktemp("work") / "w[/x]"
    folder.mkdir(parents=True)
    graph = make_random_graph(class_names=("[/x]", "[bold]b", "{c}"))
    labels = np.array(graph.labels)
    labels[graph.test[:5]] = -1
    graph = replace(graph, labels=labels, test=graph.test[5:])
    write_store(graph, folder / "s[/x]")
    write_tables(folder / "t[/x]")
    run = scr("train", folder / "s[/x]", "--encoder", "sgc", *QUICK, "--out", folder / "r[/x]")
    assert run.exit_code == 0, run.output
    return {"STORE": folder / "s[/x]", "TABLES": folder / "t[/x]", "RUN": folder / "r[/x]"}


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"export"}))  # which takes long
def test_brackets_in_names_of_folders_and_classes_are_text(tmp_path, given, command, monkeypatch):
    monkeypatch.setattr("scr.fitting._splits.FEW_LABELS", 1)  # no folds, which take long
    words = [given.get(word, word) for word in COMMANDS[command]]
    if command == "fit":
        words += ["--label", "[/label]"]
    target = str(words[-1 if command != "fit" else -3]) if command != "synth" else "OUT"
    out = tmp_path / target.replace("OUT", "[/x]{a}[red]")
    out.parent.mkdir()  # a slash in brackets is one in the path as well
    words = [out if word == target else word for word in words]
    done = scr(*words)
    assert done.exit_code == 0, done.output
    assert out.exists()
    assert str(out) in "".join(done.output.split("\n"))


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_folder_is_named_as_it_is(tmp_path, name):
    missing = scr("verify", tmp_path / f"{name}.missing")
    assert missing.exit_code == 2
    assert f"{name}.missing" in missing.output


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
@pytest.mark.parametrize("command", COMMANDS)
def test_targets_that_are_not_utf8_are_refused_before_any_work(tmp_path, given, command):
    target = os.fsdecode(os.fsencode(tmp_path) + b"/b\xff")
    words = [str(given.get(word, word)).replace("OUT", target) for word in COMMANDS[command]]
    _refused(words, tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
@pytest.mark.parametrize(
    "words",
    [("train", "BAD", "--out", "OUT"), ("predict", "BAD", "--out", "OUT.csv"), ("verify", "BAD"),
     ("train", "STORE", "--features", "BAD", "--out", "OUT"), ("report", "BAD"),
     ("train", "STORE", "--log", "BAD", "--out", "OUT"),
     ("fit", "TABLES/nodes.csv", "BAD", "--out", "OUT")],
)  # fmt: skip
def test_sources_that_are_not_utf8_are_refused_before_any_work(tmp_path, given, words):
    bad = os.fsdecode(os.fsencode(tmp_path) + b"/b\xff")
    filled = [
        word.replace("BAD", bad).replace("OUT", str(tmp_path / "out"))
        .replace("STORE", str(given["STORE"])).replace("TABLES", str(given["TABLES"]))
        for word in words
    ]  # fmt: skip
    _refused(filled, tmp_path)


def _refused(words, folder):
    done = scr(*words)
    assert done.exit_code == 2, done.output
    assert r"b\xff" in done.output.replace("\\\\", "\\")
    assert "expected text in UTF-8" in done.output
    assert not [*folder.iterdir()]

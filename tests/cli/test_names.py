"""Names of folders that look like markup are text; names that are not UTF-8 are refused first."""

from __future__ import annotations

import os
import sys

import pytest
from tests.conftest import make_random_graph
from typer.testing import CliRunner

from scr.cli import app
from scr.graph import write_store

NAMES = ("[bold]x", "r[/x]", "{task}[red")


def scr(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", NAMES)
def test_brackets_and_braces_in_names_are_text(tmp_path, name):
    store, run = tmp_path / f"{name}.store", tmp_path / name
    write_store(make_random_graph(), store)
    commands = [
        ["ingest", store, tmp_path / f"{name}.again"],
        ["propagate", store, "--hops", 1, "--out", tmp_path / f"{name}.hops"],
        ["train", store, "--encoder", "sign", "--set", "training.epochs=1", "--out", run],
        ["predict", run, "--out", tmp_path / f"{name}.csv"],
    ]
    for command in commands:
        done = scr(*command)
        assert done.exit_code == 0, done.output
        assert str(command[-1]) in done.output
    missing = scr("verify", tmp_path / f"{name}.missing")
    assert missing.exit_code == 2
    assert f"{name}.missing" in missing.output


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
@pytest.mark.parametrize("command", ["train", "propagate", "predict", "ingest", "synth"])
def test_names_that_are_not_utf8_are_refused_before_any_work(tmp_path, command):
    write_store(make_random_graph(), tmp_path / "store")
    target = os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.csv")
    words = {"ingest": [tmp_path / "store", target], "synth": [target]}
    done = scr(command, *words.get(command, [tmp_path / "store", "--out", target]))
    assert done.exit_code == 2
    assert r"b\xff.csv" in done.output.replace("\\\\", "\\")
    assert "expected text in UTF-8" in done.output
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]

"""`suggest` from the command line."""

import csv

import numpy as np
import pytest

import scr
from scr.cli import main


def command(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


@pytest.fixture
def run(tmp_path, random_graph):
    """A run on a stored graph with twenty nodes without a label."""
    labels = np.array(["a", "b", "c"])[np.arange(60) % 3].astype(object)
    labels[40:] = ""
    ids = np.array([f"node {each}" for each in range(60)])
    graph = random_graph(
        labels=labels, ids=ids, train=np.arange(20), valid=np.arange(20, 40), test=None
    )
    graph.save(tmp_path / "store")
    settings = ("--encoder", "ssgc", "--regularizer", "none", "--set", "training.epochs=5")
    assert command("train", tmp_path / "store", "--out", tmp_path / "run", *settings) == 0
    return tmp_path / "run"


def test_suggest_prints_and_writes_unlabeled_nodes(run, tmp_path, capsys):
    capsys.readouterr()
    assert command("suggest", run, "--count", 5, "--out", tmp_path / "next.csv") == 0
    printed = capsys.readouterr().out
    with (tmp_path / "next.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert all(row["id"] in printed and row["why"] in printed for row in rows)
    assert {row["id"] for row in rows} <= {f"node {each}" for each in range(40, 60)}
    assert [row["id"] for row in rows] == [
        each.id for each in scr.NodeClassifier.load(run).suggest(5)
    ]


@pytest.mark.parametrize(
    ("wrong", "message"), [(["--out", "next.parquet"], ".csv"), (["--count", "0"], "--count")]
)
def test_suggest_refuses_wrong_input(wrong, message, run, capsys):
    assert command("suggest", run, *wrong) == 2
    assert message in capsys.readouterr().err


def test_suggest_says_where_every_node_has_a_label(tmp_path, capsys):
    settings = ("--encoder", "ssgc", "--regularizer", "none", "--set", "training.epochs=2")
    assert command("train", "digits", "--out", tmp_path / "run", *settings) == 0
    assert command("suggest", tmp_path / "run") == 2
    assert "has a label; expected some without one" in capsys.readouterr().err

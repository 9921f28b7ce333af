"""`learning-curve` from the command line."""

import json

import pytest

from scr.cli import main

QUICK = ["--set", "training.epochs=4", "--set", "training.evaluate_every=2"]


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def test_a_curve_of_a_graph_is_printed_and_kept_where_asked(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = ("learning-curve", "digits", "--encoder", "ssgc", "--labels", "1,2", "--seeds", 2)
    assert scr(*wanted, *QUICK) == 0
    printed = capsys.readouterr().out
    assert "The last doubling of the labels, from 1 to 2 labels per class," in printed
    assert list(tmp_path.iterdir()) == []
    assert scr(*wanted, *QUICK, "--out", "curve") == 0
    result = json.loads((tmp_path / "curve" / "learning_curve.json").read_text())
    assert all(sentence in capsys.readouterr().out for sentence in result["sentences"][:1])
    assert result["measured_on"] == "held-out known labels"
    assert (tmp_path / "curve" / "report.html").exists()


def test_a_curve_of_a_run_has_its_graph_and_settings(tmp_path, capsys):
    run = tmp_path / "run"
    settings = ("--encoder", "sign", "--regularizer", "scr-m", "--set", "encoder.hidden=7")
    assert scr("train", "digits", "--out", run, *settings, *QUICK) == 0
    assert scr("learning-curve", run, "--labels", 2, "--seeds", 1, "--on-test") == 0
    result = json.loads((run / "learning-curve" / "learning_curve.json").read_text())
    assert (result["encoder"], result["regularizer"]) == ("sign", "scr-m")
    assert result["measured_on"] == "test labels"
    assert {each["epochs"] for each in result["runs"]} == {4}
    assert {each["regularizer"] for each in result["runs"]} == {"none", "scr-m"}


@pytest.mark.parametrize(
    "wrong",
    [["--encoder", "foo"], ["--labels", "x"], ["--labels", "9999"], ["--labels", "0"],
     ["--regularizer", "none"], ["--regularizer", "foo"]],
)  # fmt: skip
def test_wrong_input_is_refused_before_any_run(wrong, tmp_path, capsys):
    out = tmp_path / "out"
    assert scr("learning-curve", "digits", "--out", out, "--seeds", 1, *wrong) == 2
    assert "error:" in capsys.readouterr().err
    assert not out.exists()

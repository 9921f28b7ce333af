"""`sweep` from the command line."""

import json

import numpy as np
import pytest

from scr.cli import main

QUICK = ["--set", "training.epochs=4", "--set", "training.evaluate_every=2"]


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def test_sweep_says_what_each_curve_shows_and_makes_a_page(tmp_path, capsys):
    out = tmp_path / "out"
    code = scr("sweep", "digits", "--out", out, "--encoder", "ssgc", "--settings", "weight",
               "--values", "weight=0,1", "--seeds", 2, "--regularizers", "scr", *QUICK)  # fmt: skip
    assert code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "consistency.weight with scr:" in printed
    assert "sweep.json" in printed
    result = json.loads((out / "sweep.json").read_text())
    # Without weight, consistency regularization is the base, run for run.
    assert result["curves"][0]["points"][0]["test_difference"]["mean"] == 0
    page = (out / "report.html").read_text()
    assert "95% interval of the mean" in page
    assert all(sentence.split(";")[0] in page for sentence in result["sentences"])


@pytest.mark.parametrize(
    "wrong",
    [["--encoder", "foo"], ["--values", "weight=x"], ["--regularizers", "foo"],
     ["--regularizers", ","], ["--regularizers", "none"],
     ["--settings", "training.epochs"], ["--values", "consistency.wieght=1"]],
)  # fmt: skip
def test_sweep_refuses_wrong_input_before_any_run(wrong, tmp_path, capsys):
    assert scr("sweep", "digits", "--out", tmp_path / "out", "--seeds", 1, *wrong) == 2
    assert "error:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_another_metric_is_what_a_sweep_shows(tmp_path, capsys):
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as caught:
        main([
            "sweep", "digits", "--out", str(out), "--encoder", "sgc", "--regularizers", "scr",
            "--settings", "training.learning_rate", "--values", "training.learning_rate=0.001,0.1",
            "--seeds", "2", "--metric", "log-loss", *QUICK,
        ])  # fmt: skip
    assert not caught.value.code
    result = json.loads((out / "sweep.json").read_text())
    _, curve = result["curves"]  # without a regularizer, and with it
    runs = [run for run in result["runs"] if (run["value"], run["regularizer"]) == (0.1, "scr")]
    expected = np.mean([run["test_metric"] for run in runs])
    assert curve["points"][1]["test_mean"] == pytest.approx(expected)
    lower = [point["valid_mean"] for point in curve["points"]]
    assert curve["best"] == [0.001, 0.1][int(np.argmin(lower))]  # less is better
    printed = " ".join(capsys.readouterr().out.split())
    assert "by validation log-loss" in printed
    assert "nats of test log-loss against the base" in printed
    assert "accuracy" not in printed
    assert "log-loss minus the base" in (out / "report.html").read_text()

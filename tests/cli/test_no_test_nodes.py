"""A split that uses every label leaves no test nodes, and everything says so."""

import json

import pytest

from scr.cli import main
from scr.report.page import comparison_page
from scr.runs import read_json

QUICK = ["--set", "training.epochs=4", "--set", "training.evaluate_every=2"]


def scr(*arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


@pytest.mark.parametrize("rule", ["per-class:all", "random:0.9,0.1"])
def test_a_run_without_test_nodes_is_trained_reported_and_smoothed(tmp_path, capsys, rule):
    run = tmp_path / "run"
    assert scr("train", "digits", "--out", run, "--encoder", "ssgc", "--splits", rule, *QUICK) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "no test nodes" in printed
    assert "test accuracy" not in printed
    metrics = read_json(run / "metrics.json")
    assert metrics["test_accuracy"] is None
    assert "test" not in metrics
    assert metrics["valid_accuracy"] == metrics["valid"]["accuracy"] > 0
    page = (run / "report.html").read_text()
    assert "no test nodes" in page
    assert "Measured on the validation nodes" in page
    assert scr("report", run) == 0
    assert scr("predict", run, "--out", tmp_path / "p.parquet") == 0
    assert scr("smooth", run, "--set", "postprocess.search=false") == 0


def test_a_comparison_without_test_nodes_differs_on_validation_nodes(tmp_path, capsys):
    out = tmp_path / "out"
    pair = ["--encoders", "ssgc", "--regularizers", "none,scr", "--seeds", 2]
    assert scr("compare", "digits", *pair, "--splits", "per-class:all", "--out", out, *QUICK) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "no test nodes" in printed
    result = json.loads((out / "compare.json").read_text())
    assert {row["measure"] for row in result["rows"]} == {"valid_accuracy"}
    assert "no test nodes" in comparison_page(result)

"""`scr demo`: a table and a page from embedded data, in a folder that can be gone on with."""

import json

import numpy as np
import pandas as pd
import pytest

from scr.cli import main
from scr.cli.commands import demo
from scr.sources import load_graph


def run_demo(out, seeds):
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--out", str(out), "--seeds", str(seeds), "--jobs", "1"])
    assert not caught.value.code


@pytest.mark.filterwarnings("ignore:.*had no part")
def test_the_demo_compares_on_equal_settings_and_says_how_they_were_chosen(
    tmp_path, capsys, monkeypatch
):
    training = {**demo.SETTINGS["training"], "epochs": 4, "evaluate_every": 2}
    monkeypatch.setattr(demo, "SETTINGS", {**demo.SETTINGS, "training": training})
    monkeypatch.setattr(demo, "FIT_SETTINGS", {"training": {"epochs": 4, "evaluate_every": 2}})
    run_demo(tmp_path, 1)
    first = (tmp_path / "runs.jsonl").read_text()
    run_demo(tmp_path, 2)
    assert (tmp_path / "runs.jsonl").read_text().startswith(first)
    result = json.loads((tmp_path / "compare.json").read_text())
    assert [(row["encoder"], row["regularizer"], row["n"]) for row in result["rows"]] == [
        (encoder, regularizer, 2)
        for encoder in ("sagn", "ssgc")
        for regularizer in ("none", "scr", "scr-m")
    ]
    page = (tmp_path / "report.html").read_text()
    chosen = "chosen once, by accuracy on validation nodes, and are the same with and without SCR"
    assert chosen in page
    assert chosen in " ".join(capsys.readouterr().out.split())
    assert page.count("Shown for sagn, seed 0.") == 2
    assert "A random sample" in page


def test_the_tables_of_the_demo_are_the_graph_with_half_of_its_labels(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(demo, "FIT_SETTINGS", {"training": {"epochs": 20, "evaluate_every": 5}})
    graph = load_graph("digits")
    demo._fit_tables(graph, tmp_path)
    nodes = pd.read_csv(tmp_path / "tables" / "nodes.csv")
    assert nodes["digit"].notna().sum() == 899
    pixels = nodes[[f"pixel_{number}" for number in range(64)]]
    np.testing.assert_allclose(pixels, graph.features, rtol=1e-6)
    assert len(pd.read_csv(tmp_path / "tables" / "edges.csv")) == graph.num_undirected_edges
    predicted = pd.read_csv(tmp_path / "fit" / "predictions.csv", index_col="id")["prediction"]
    numbers = [demo.DIGITS.index(predicted[f"image-{node}"]) for node in range(1, 1797, 2)]
    right = np.mean(numbers == graph.labels[1::2])
    assert right > 0.95
    assert f"Of the 898 images without a label, {right:.1%} are right." in capsys.readouterr().out

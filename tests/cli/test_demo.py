"""`scr demo`: a table and a page from embedded data, in a folder that can be gone on with."""

import json

import pytest

from scr.cli import main
from scr.cli.commands import demo


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

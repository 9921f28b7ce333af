"""What the guides to other libraries, unseen nodes, export and logs show can be run."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PACKAGES = {
    "scikit-learn": ["pandas", "networkx", "torch_geometric"],
    "inductive": [],
    "export": ["onnx", "onnxruntime", "onnxscript"],
    "logs": ["tensorboard"],
}


@pytest.mark.parametrize("guide", PACKAGES)
def test_the_examples_of_a_guide_run(guide, tmp_path, monkeypatch):
    for package in PACKAGES[guide]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    names: dict = {}
    for block in BLOCK.findall(text):
        exec(compile(block, guide, "exec"), names)
    if guide == "scikit-learn":
        assert names["model"].predict(["cid", "fay"]).tolist() == ["young", "old"]
        assert names["model"].classes_.tolist() == ["old", "young"]
        assert names["copies"][1].get_params()["seed"] == 1
    if guide == "export":
        np.testing.assert_allclose(
            names["everywhere"], names["classifier"].predict_proba(), atol=1e-5
        )
    if guide == "logs":
        assert list((tmp_path / "runs/events/first").iterdir())
        assert len(names["seen"]) == 10


@pytest.mark.parametrize("guide", ["inductive", "export", "logs"])
def test_the_commands_of_a_guide_run(guide, tmp_path, monkeypatch):
    from scr.cli import app

    for package in PACKAGES[guide]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    commands = [each for each in re.findall(r"^scr (.*)$", text, re.M) if "http" not in each]
    assert commands
    for command in commands:
        shorter = ["--set", "training.epochs=2"] if command.startswith("train") else []
        result = CliRunner().invoke(app, [*command.split(), *shorter])
        assert result.exit_code == 0, result.output

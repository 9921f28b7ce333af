"""`efficiency` from the command line."""

import json

import pytest

from scr.cli import main


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def test_efficiency_prints_the_table_and_draws_the_figure(tmp_path, capsys):
    out = tmp_path / "out"
    code = scr("efficiency", "digits", "--out", out, "--encoder", "ssgc", "--methods", "scr,rlu",
               "--seeds", 1, "--epochs", "4", "--epochs", "rlu=2+2",
               "--set", "training.evaluate_every=2", "--set", "training.metric=macro-f1"
               )  # fmt: skip
    assert code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Weights were kept by macro F1; curves and table show accuracy" in printed
    assert "rlu ends at" in printed
    assert "Share of epochs:" in printed
    result = json.loads((out / "efficiency.json").read_text())
    assert [method["total_epochs"] for method in result["methods"]] == [4, 4]
    assert (out / "efficiency.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "wrong",
    [["--methods", "scr,foo"], ["--methods", "scr"], ["--epochs", "scr=1+2"], ["--encoder", "foo"]],
)
def test_efficiency_refuses_wrong_input_before_any_run(wrong, tmp_path, capsys):
    assert scr("efficiency", "digits", "--out", tmp_path / "out", "--seeds", 1, *wrong) == 2
    assert "error:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

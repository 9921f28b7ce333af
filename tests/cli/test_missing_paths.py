"""A path that does not exist is called that, by every command and in Python."""

import pytest

import scr
from scr.cli import main


@pytest.mark.parametrize(
    "line",
    [
        "ingest MISSING OUT", "propagate MISSING", "train MISSING --out OUT",
        "tune MISSING --out OUT", "predict MISSING --out OUT.csv", "smooth MISSING",
        "compare MISSING --out OUT", "sweep MISSING --out OUT", "efficiency MISSING --out OUT",
        "report MISSING", "verify MISSING",
        "reproduce hu-2020-base-mlp-products --graph MISSING --out OUT",
        "train digits --out OUT --recipe MISSING", "train digits --out OUT --splits MISSING",
        "train digits --out OUT --features MISSING", "ingest digits OUT --features MISSING",
        "propagate digits --rows MISSING.npy --out OUT",
    ],
)  # fmt: skip
def test_every_command_says_that_a_path_does_not_exist(line, tmp_path, capsys):
    names = {"MISSING": "is [not] here", "MISSING.npy": "is [not] here.npy", "OUT": "out"}
    words = [str(tmp_path / names[word]) if word in names else word for word in line.split()]
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    error, *_ = capsys.readouterr().err.splitlines()
    missing = next(word for word in words if "is [not] here" in word)
    assert error.startswith(f"error: `{missing}` does not exist")
    assert not (tmp_path / "out").exists()


def test_python_says_so_too(tmp_path):
    with pytest.raises(scr.SCRError, match="nothing` does not exist"):
        scr.load_graph(tmp_path / "nothing")


def test_what_the_system_refuses_is_a_sentence_that_names_the_file(monkeypatch, tmp_path, capsys):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "secret")

    monkeypatch.setattr("scr.sources.load_graph", refuse)
    with pytest.raises(SystemExit) as end:
        main(["train", str(tmp_path), "--out", str(tmp_path / "run")])
    assert end.value.code == 2
    assert "error: `secret` cannot be used: Permission denied" in capsys.readouterr().err

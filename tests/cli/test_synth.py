"""`scr synth`: a store, shards or files as OGB has them, never two of them."""

import pytest

from scr.cli import main
from scr.sources import load_graph
from scr.storage import is_verified, read_manifest

SIZES = ["--nodes", 300, "--edges", 900, "--features", 5, "--classes", 4]


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def test_all_three_ways_hold_one_graph(tmp_path):
    store, shards, ogb = (tmp_path / name for name in ("store", "shards", "ogb"))
    assert scr("synth", store, *SIZES) == 0
    assert scr("synth", "--source", shards, *SIZES) == 0
    assert scr("synth", "--ogb", ogb, *SIZES) == 0
    prints = {load_graph(path).fingerprint() for path in (store, shards, ogb)}
    assert len(prints) == 1


@pytest.mark.parametrize("given", [[], ["s", "--ogb", "o"], ["--source", "s", "--ogb", "o"]])
def test_one_place_to_write_to_is_wanted(tmp_path, monkeypatch, capsys, given):
    monkeypatch.chdir(tmp_path)
    assert scr("synth", *given, *SIZES) == 2
    assert "expected one of them" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_new_store_is_not_read_again_at_its_first_use(tmp_path):
    assert scr("synth", tmp_path / "a", *SIZES) == 0
    assert is_verified(read_manifest(tmp_path / "a"))

"""Hops beside a store that are damaged are told and made again, never used."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaigns import examples
from tests.conftest import make_random_graph
from tests.forging import flip, forge
from typer.testing import CliRunner

from scr.cli import app
from scr.errors import StoreError
from scr.propagation import Hops, PropagationConfig, load_cached_hops
from scr.sources import load_graph
from scr.storage import _verified as verified

CONFIG = PropagationConfig(hops=2)


def run(*arguments):
    return CliRunner().invoke(app, ["propagate", *map(str, arguments), "--scale", "none"])


@pytest.fixture(scope="module", params=["all", "some"])
def stored(request, tmp_path_factory):
    """A store with hops of all nodes, or of some; damage is put into copies of it."""
    folder = tmp_path_factory.mktemp("stores")
    path = make_random_graph().save(folder / "store")
    np.save(folder / "some.npy", np.arange(0, 60, 2))
    rows = "all" if request.param == "all" else folder / "some.npy"
    assert run(path, "--hops", 2, "--rows", rows).exit_code == 0
    return path, rows


def hops_of(path):
    (hops,) = (path / "hops").iterdir()
    return hops


@examples(40)
@given(data=st.data())
def test_damaged_hops_are_made_again_with_the_same_numbers(stored, tmp_path_factory, data):
    original, rows = stored
    expected = np.asarray(Hops.open(hops_of(original)))
    path = shutil.copytree(original, tmp_path_factory.mktemp("copy") / "store")
    file = data.draw(st.sampled_from(sorted(hops_of(path).iterdir())))
    damage = data.draw(st.sampled_from(["flip", "truncate", "swap", "remove"]))
    size = file.stat().st_size
    if damage == "flip":
        flip(file, data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7)))
    elif damage == "truncate":
        with file.open("r+b") as stream:
            stream.truncate(data.draw(st.integers(0, size - 1)))
    elif damage == "remove":
        file.unlink()
    elif file.suffix == ".npy":
        np.save(file, np.load(file)[::-1].copy())
    wanted = None if rows == "all" else np.load(rows)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = load_cached_hops(load_graph(str(path)), CONFIG, nodes=wanted)
    if found is not None:
        assert np.array_equal(np.asarray(found), expected)
        return
    assert any("made again" in str(each.message) for each in told)
    done = run(path, "--hops", 2, "--rows", rows)
    assert done.exit_code == 0, done.output
    assert "there already" not in done.output
    assert np.array_equal(np.asarray(Hops.open(hops_of(path))), expected)


def test_propagate_says_that_reversed_rows_are_damaged(tmp_path):
    path = make_random_graph().save(tmp_path / "store")
    assert run(path, "--hops", 2).exit_code == 0
    file = hops_of(path) / "hops.npy"
    right = np.load(file)
    np.save(file, right[::-1].copy())
    done = run(path, "--hops", 2)
    assert done.exit_code == 0
    shown = " ".join(done.stderr.split())
    assert "hops.npy` has changed since it was written" in shown
    assert "these hops are not used but made again" in shown
    assert "Wrote 3 hops" in done.stdout
    np.testing.assert_array_equal(np.load(file), right)
    assert "there already" in run(path, "--hops", 2).stdout


def test_hops_are_not_read_before_they_are_used(stored, monkeypatch):
    path, rows = stored
    graph = load_graph(str(path))
    monkeypatch.setattr(verified, "_look_at", lambda *_: pytest.fail("read an array"))
    wanted = None if rows == "all" else np.load(rows)
    assert load_cached_hops(graph, CONFIG, nodes=wanted) is not None


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("rows", lambda a: a[::-1].copy(), "at position 1; expected more than 58"),
        ("rows", lambda a: a - 1, "holds -1 at position 0; expected more than -1"),
        ("rows", lambda a: a[:-1].copy(), r"of shape \(29,\); expected int64 of shape \(30,\)"),
        ("hops", lambda a: a[:, 0].copy(), "expected float32 or float16 of shape"),
        ("hops", lambda a: a.astype(np.int32), "holds int32"),
    ],
)
def test_forged_hops_of_another_shape_or_order_are_refused(tmp_path, name, change, said):
    path = make_random_graph().save(tmp_path / "store")
    np.save(tmp_path / "some.npy", np.arange(0, 60, 2))
    assert run(path, "--hops", 1, "--rows", tmp_path / "some.npy").exit_code == 0
    hops = hops_of(path)
    forge(hops, name, change(np.load(hops / f"{name}.npy")))
    with pytest.raises(StoreError, match=said):
        Hops.open(hops)

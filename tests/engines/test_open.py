"""Engines by name, and that nothing but the engine for Ray needs Ray."""

import subprocess
import sys

import pytest
from tests.conftest import make_random_graph

from scr.engines import LocalEngine, open_engine, opened
from scr.errors import ConfigError


def test_an_unknown_engine_is_refused():
    with pytest.raises(ConfigError, match="`engine` is 'spark'; expected local or ray"):
        open_engine("spark")


def test_an_address_is_for_ray():
    with pytest.raises(ConfigError, match="pass `--engine ray`"):
        open_engine("local", "auto")


def test_without_ray_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'scr-gnn\[ray\]'"):
        open_engine("ray")


def test_an_engine_that_is_given_stays_open(monkeypatch):
    closed = []
    monkeypatch.setattr(LocalEngine, "close", lambda engine: closed.append(engine))
    engine = LocalEngine(2)
    with opened(engine) as same:
        assert same is engine
    assert closed == []
    with opened("local", jobs=3) as named:
        assert named.jobs == 3
    assert closed == [named]


CODE = """
import sys
import scr
from scr.cli import main
from scr.engines import LocalEngine, Needs
from tests.engines import workers
try:
    main(["compare", sys.argv[1], "--out", sys.argv[2], "--encoders", "sgc", "--regularizers",
          "none", "--seeds", "1", "--jobs", "1", "--set", "training.epochs=1"])
except SystemExit as end:
    assert not end.code
with LocalEngine(2) as engine:  # processes that start faster than those of a comparison
    assert len(list(engine.run(workers.scaled, 3, range(2), needs=Needs()))) == 2
assert not [name for name in sys.modules if name.partition(".")[0] == "ray"]
"""


def test_the_local_engine_does_not_import_ray(tmp_path):
    store = make_random_graph().save(tmp_path / "store")
    command = [sys.executable, "-c", CODE, store, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

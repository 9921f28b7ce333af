"""Benchmarks are scripts that import each other by name, from their own folder."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
KEPT = "code_version"
"""Remembers what each file of the package says, which takes two seconds to find out."""


@pytest.fixture
def benchmark_module():
    """Import a benchmark by name; what was imported is forgotten afterwards, but for one."""
    if not FOLDER.exists():
        pytest.skip("a package without its benchmarks")
    sys.path.insert(0, str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - before - {KEPT}:
        if getattr(sys.modules[name], "__file__", None) == str(FOLDER / f"{name}.py"):
            del sys.modules[name]

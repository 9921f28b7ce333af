"""The package as a whole: its public names, its version, and how light its import is."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import scr

PUBLIC = [
    "ConfidentSet",
    "ConsistencyLoss",
    "Graph",
    "Hops",
    "MeanTeacher",
    "NodeClassifier",
    "SCRError",
    "fit",
    "load_graph",
    "propagate",
]


def test_the_public_names_are_exactly_these():
    assert scr.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported(name):
    assert getattr(scr, name).__name__ == name


def test_public_names_show_up_in_dir():
    assert set(PUBLIC) <= set(dir(scr))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Grahp'"):
        scr.Grahp  # noqa: B018


def test_the_version_is_that_of_the_installed_distribution():
    assert importlib.metadata.version("scr-gnn") == scr.__version__


@pytest.mark.parametrize(
    "statement",
    [
        "import scr",
        "import scr.graph",
        "import scr.report",
        "from scr.runs import read_run, run_identity",
    ],
)
def test_importing_does_not_wait_for_torch(statement):
    code = f"import sys; {statement}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_extra_is_of_packages_that_the_code_imports():
    repository = Path(__file__).parents[1]
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = [path.read_text(encoding="utf-8") for path in (repository / "src").rglob("*.py")]
    extras = project["optional-dependencies"]
    for name in set(extras) - {"all", "test", "docs", "dev"}:
        assert name in extras["all"][0]
        for requirement in extras[name]:
            package = re.match(r"[\w-]+", requirement)[0].removesuffix("-skinny")
            module = package.replace("-", "_")
            pattern = re.compile(rf"^ *(import|from) {module}\b", re.M)
            assert any(map(pattern.search, sources)), requirement


def test_every_part_of_the_package_that_the_guides_name_is_found():
    code = "import scr; scr.networks.sampling.NeighborSampler, scr.graph.Graph, scr.training.fit"
    subprocess.run([sys.executable, "-c", code], check=True)

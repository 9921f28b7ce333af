"""What architecture.md says about adding an encoder, a reader, a regularizer and a metric is true.

Each is added to a copy of the package, as the table says: a file and an entry.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "scr"

ENCODER = '''
"""A linear layer on hop 1.

Paper: nobody.
"""

from torch import nn

from scr.encoders._base import Encoder, EncoderConfig


class NearestHop(Encoder):
    name = "nearest-hop"
    config_class = EncoderConfig

    def __init__(self, config, shape):
        super().__init__()
        self.linear = nn.Linear(shape.features, shape.classes)

    def forward(self, batch):
        return self.linear(batch.hops[:, 1])
'''
READER = """
import numpy as np

from scr.sources.readers._raw import RawGraph


def read_edge_list(path, options):
    edges = np.loadtxt(path, dtype=np.int64).T
    return RawGraph(edges=edges, num_nodes=int(edges.max()) + 1, name=path.stem)
"""
REGULARIZER = """
from scr.consistency._unlabeled import UnlabeledLoss


class CalmLoss(UnlabeledLoss):
    defaults = {"weight": 0.5, "threshold": 0.0}

    @classmethod
    def from_config(cls, config, classes):
        return cls(config.weight)

    def forward(self, logits, pseudo_labels=None, *, known=None):
        return self.scale * logits.square().mean()
"""
CODE = """
import json
import scr
assert {package!r} in scr.__file__
graph = scr.load_graph("digits")
answers = {{"reader": scr.load_graph("small.edges").num_undirected_edges}}
settings = dict(epochs=2, consistency=dict(warmup=0))
for name, pair in (("encoder", ("nearest-hop", "scr")), ("regularizer", ("sign", "calm"))):
    classifier = scr.NodeClassifier(*pair, **settings).fit(graph)
    answers[name] = classifier.history_[-1]["consistency_loss"] > 0
classifier = scr.NodeClassifier("mlp", "none", epochs=2).fit(graph)
expected = classifier.predict_proba(graph.test).max(axis=1).min()
answers["metric"] = bool(classifier.metrics("test")["least_sure"] == expected)
print(json.dumps(answers))
"""


def _insert(path: Path, before: str, line: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, f"{line}\n{before}", 1), encoding="utf-8")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def _add_encoder(package: Path) -> None:
    (package / "encoders" / "_nearest_hop.py").write_text(ENCODER, encoding="utf-8")
    catalog = package / "networks" / "_catalog.py"
    _insert(catalog, "_HOPS_APART", "from scr.encoders._nearest_hop import NearestHop")
    _replace(catalog, "(SIGN, SAGN,", "(NearestHop, SIGN, SAGN,")


def _add_reader(package: Path) -> None:
    (package / "sources" / "readers" / "_edge_list.py").write_text(READER, encoding="utf-8")
    formats = package / "sources" / "_formats.py"
    _insert(formats, "FORMATS = (", "from scr.sources.readers._edge_list import read_edge_list")
    _replace(
        formats,
        "FORMATS = (",
        "FORMATS = (Format(looks_like='an edge list (.edges)', read=read_edge_list,\n"
        "                  recognizes=lambda path: path.suffix == '.edges'),",
    )


def _add_regularizer(package: Path) -> None:
    path = package / "consistency" / "alternatives" / "_calm.py"
    path.write_text(REGULARIZER, encoding="utf-8")
    registry = package / "consistency" / "_regularizers.py"
    _insert(registry, "NO_REGULARIZER =", "from scr.consistency.alternatives._calm import CalmLoss")
    _replace(registry, '    "pi": PiLoss,', '    "calm": CalmLoss,\n    "pi": PiLoss,')


def _add_metric(package: Path) -> None:
    metrics = package / "metrics" / "_classification.py"
    _insert(
        metrics, "MEASURES:", "def least_sure(rows):\n    return float(rows.confidence.min())\n\n"
    )
    _replace(
        metrics,
        '    "log_loss": log_loss,',
        '    "log_loss": log_loss,\n    "least_sure": least_sure,',
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Of one process, which compiles the loops of the copy once, with all four added."""
    package = tmp_path_factory.mktemp("site") / "scr"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for add in (_add_encoder, _add_reader, _add_regularizer, _add_metric):
        add(package)
    (package.parent / "small.edges").write_text("0 1\n1 2\n2 3\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    environment["NUMBA_CACHE_DIR"] = str(package.parent / "numba")
    result = subprocess.run(
        [sys.executable, "-c", CODE.format(package=str(package))], env=environment,
        cwd=package.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_an_encoder_is_a_file_and_an_entry(answers):
    assert answers["encoder"] is True


def test_a_reader_is_a_file_and_an_entry(answers):
    assert answers["reader"] == 3


def test_a_regularizer_is_a_file_and_an_entry(answers):
    assert answers["regularizer"] is True


def test_a_metric_is_a_function_and_an_entry(answers):
    assert answers["metric"] is True

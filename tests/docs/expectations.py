"""What must be true of some pages beyond that they run: values from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.docs.session import Session

Capture = Any
EXPECTATIONS: dict[str, Callable[[Session, Capture], None]] = {}


def _of(page: str) -> Callable[[Any], Any]:
    def register(expect: Any) -> Any:
        EXPECTATIONS[page] = expect
        return expect

    return register


@_of("docs/guides/heterogeneous-graphs.md")
def typed_graphs(session: Session, capsys: Capture) -> None:
    from scr.graph import open_store

    session.run_all()
    assert "left out paper:rev_writes:author" in capsys.readouterr().out
    assert session.names["graph"].node_types == {"paper": 4, "author": 3}
    graph = open_store("library-store")
    assert graph.class_names == ("biology", "physics")
    assert [str(each) for each in graph.relations] == ["author:writes:paper", "paper:cites:paper"]
    subsets = json.loads(Path("runs/subsets/run.json").read_text())["subsets"]
    assert subsets == [["author:writes:paper", "paper:cites:paper"], ["author:writes:paper"]]


@_of("docs/guides/bring-your-own-model.md")
def own_models(session: Session, capsys: Capture) -> None:
    import torch

    names = session.names
    session.run_until("views = ")  # a step of two views, and what it costs
    passes: list[int] = []
    hook = names["model"].register_forward_hook(lambda *_: passes.append(1))
    names["model"].train()
    session.run_next()
    hook.remove()
    assert len(passes) == 2
    assert names["loss"].item() > 0
    session.run_all()
    # Two labels per class of ten: chance is 0.1, and a GCN without SCR has about 0.78.
    assert names["accuracy"] > 0.75
    module, checkpoint = names["module"], names["checkpoint"]
    assert module.teacher.step == 60
    assert 0 < len(module.confident) < len(names["x"])
    torch.manual_seed(1)
    other = type(module)(64, 64, 10)
    other.load_state_dict(checkpoint["state_dict"])
    other.on_load_checkpoint(checkpoint)
    assert other.teacher.step == 60
    assert torch.equal(other.confident.nodes, module.confident.nodes)
    x, edge_index = names["x"], names["edge_index"]
    assert torch.equal(other.teacher(x, edge_index), module.teacher(x, edge_index))
    assert names["classifier"].score("test") > 0.75
    assert names["again"].score("test") == names["classifier"].score("test")
    np.testing.assert_allclose(
        names["probabilities"].numpy(), names["plain"].predict_proba(), atol=1e-5
    )
    # Of the run with drawn neighbors, the term acts once its warm-up is over.
    terms = [epoch["consistency_loss"] for epoch in names["drawn"].history_]
    assert terms[:2] == [0.0, 0.0]
    assert min(terms[2:]) > 0
    assert len(terms) == 10


@_of("docs/guides/class-shares.md")
def class_shares(session: Session, capsys: Capture) -> None:
    session.run_all()
    names = session.names
    np.testing.assert_allclose(names["better"], names["corrected"], rtol=0.1)
    np.testing.assert_allclose(names["better"].sum(axis=1), 1, rtol=1e-5)


@_of("docs/guides/metrics.md")
def metrics(session: Session, capsys: Capture) -> None:
    from sklearn.metrics import accuracy_score, roc_auc_score

    session.run_all()
    names = session.names
    graph, classifier = names["graph"], names["classifier"]
    labels, probabilities = graph.labels[graph.test], classifier.predict_proba(graph.test)
    area, accuracy = map(float, capsys.readouterr().out.split()[:2])
    assert accuracy == pytest.approx(accuracy_score(labels, probabilities.argmax(axis=1)))
    probabilities = probabilities.astype(np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert area == pytest.approx(roc_auc_score(labels, probabilities, multi_class="ovr"), abs=1e-6)
    several, model = names["several"], names["model"]
    truth, likely = several.labels[several.test], model.predict_proba(several.test)
    areas = [roc_auc_score(y[y >= 0], p[y >= 0]) for y, p in zip(truth.T, likely.T, strict=True)]
    assert model.score("test") == pytest.approx(np.mean(areas))


@_of("docs/guides/probabilities.md")
def probabilities(session: Session, capsys: Capture) -> None:
    import pyarrow.parquet as pq

    session.run_all()
    graph, sets = session.names["graph"], session.names["sets"]
    inside = sets[np.arange(len(graph.test)), np.asarray(graph.labels)[graph.test]]
    assert inside.mean() == pytest.approx(0.9, abs=0.04)
    before, after = map(float, capsys.readouterr().out.splitlines()[-1].split())
    assert after < before
    table = pq.read_table("sets.parquet").to_pylist()
    assert all(len(row["prediction_set"]) == row["set_size"] for row in table)


@_of("docs/guides/tuning.md")
def tuning(session: Session, capsys: Capture) -> None:
    session.run_all()
    assert float(capsys.readouterr().out) > 0.7
    assert "Accuracy on held-out labels" in session.outputs[0]


@_of("docs/guides/scikit-learn.md")
def other_libraries(session: Session, capsys: Capture) -> None:
    session.run_all()
    model = session.names["model"]
    assert model.predict(["cid", "fay"]).tolist() == ["young", "old"]
    assert model.classes_.tolist() == ["old", "young"]
    assert session.names["copies"][1].get_params()["seed"] == 1


@_of("docs/guides/export.md")
def exported(session: Session, capsys: Capture) -> None:
    session.run_all()
    expected = session.names["classifier"].predict_proba()
    np.testing.assert_allclose(session.names["everywhere"], expected, atol=1e-5)


@_of("docs/guides/logs.md")
def logs(session: Session, capsys: Capture) -> None:
    session.run_all()
    assert list(Path("runs/events/first").iterdir())
    assert len(session.names["seen"]) == 10

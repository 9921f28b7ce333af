"""Exported models give the probabilities of `predict_proba` under onnxruntime."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tests.conftest import make_random_graph
from tests.training.typed_graphs import make_typed_graph
from typer.testing import CliRunner

import scr
from scr.cli import app
from scr.errors import ConfigError, RunError, SCRError
from scr.prediction import EnsemblePredictor

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

QUICK = {"epochs": 4, "evaluate_every": 2}
SMALL = {"hidden": 8}
MODELS = {
    "ssgc": {"encoder": {"name": "ssgc", **SMALL}},
    "ssgc-ppr": {"encoder": {"name": "ssgc", "mixture": "ppr", "layers": 1, **SMALL},
                 "propagation": {"row_scale": "unit"}},
    "ssgc-unit": {"encoder": {"name": "ssgc", "norm": "batch", "norm_place": "after", **SMALL},
                  "propagation": {"hop_scale": "unit", "hops": 3}},
    "mlp": {"encoder": {"name": "mlp", "norm": "layer", **SMALL}},
    "sign-unit": {"encoder": {"name": "sign", "norm": "batch", "hop_layers": 0, **SMALL},
                  "propagation": {"row_scale": "unit"}},
    "sagn": {"encoder": {"name": "sagn", "heads": 2, "position_embedding": True, **SMALL}},
    "sagn-labels": {"encoder": {"name": "sagn", "hop_norm": "tanh", **SMALL},
                    "propagation": {"label_hops": 2}},
    "gamlp-labels": {"encoder": {"name": "gamlp", **SMALL},
                     "propagation": {"label_hops": 3, "label_keep": "all"}},
    "gamlp-jk": {"encoder": {"name": "gamlp-jk", **SMALL},
                 "propagation": {"direction": "separate", "hops": 2}},
}  # fmt: skip


def run_onnx(file, inputs):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    assert {each.name for each in session.get_inputs()} == set(inputs)
    return session.run(None, inputs)[0]


OTHERS = ("ssgc", "sagn-labels", "gamlp-jk", "ssgc-unit", "sign-unit")
"""Models that differ from the others in little of what is exported."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.stress if name in OTHERS else []) for name in MODELS],
)
def test_the_head_gives_the_probabilities_of_the_classifier(name, tmp_path):
    graph = make_random_graph(nodes=300, edges=900)
    made = scr.NodeClassifier(regularizer="none", **MODELS[name], **QUICK).fit(graph)
    file = made.export_onnx(tmp_path / "model.onnx")
    assert (made.predictor_.model.calibration.temperature != 1) or name == "ssgc-ppr"
    expected = made.predict_proba()
    np.testing.assert_allclose(run_onnx(file, made.onnx_inputs()), expected, atol=1e-5)
    # Any number of rows, one included.
    np.testing.assert_allclose(run_onnx(file, made.onnx_inputs([7])), expected[[7]], atol=1e-5)
    np.testing.assert_array_equal(made.predict_proba(), expected)  # which the export left alone
    other = make_random_graph(nodes=50, seed=4)
    np.testing.assert_allclose(
        run_onnx(file, made.onnx_inputs([3, 1], graph=other)),
        made.predict_proba([3, 1], graph=other), atol=1e-5,
    )  # fmt: skip


def test_hops_are_those_that_scipy_multiplies(tmp_path):
    graph = make_random_graph(nodes=60)
    made = scr.NodeClassifier(
        "ssgc",
        "none",
        propagation={"hops": 2, "norm": "row", "self_loops": False},
        data={"scale": "none"},
        **QUICK,
    ).fit(graph)
    matrix = graph.adjacency().toarray()
    matrix /= np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    features = np.asarray(graph.features)
    hops = np.stack([features, matrix @ features, matrix @ (matrix @ features)], axis=1)
    np.testing.assert_allclose(made.onnx_inputs()["hops"], hops, atol=1e-5)
    file = made.export_onnx(tmp_path / "model.onnx")
    answer = run_onnx(file, {"hops": hops.astype(np.float32)})
    np.testing.assert_allclose(answer, made.predict_proba(), atol=1e-5)


STEPS = [
    ("row", "none"),
    ("standard", "none"),
    ("unit", "svd"),
    ("tfidf", "svd"),
    ("none", "random"),
]


@pytest.mark.parametrize(("scale", "reduce"), STEPS)
def test_the_preparation_gives_prepared_features(scale, reduce, tmp_path):
    features = np.random.default_rng(0).poisson(0.5, (60, 12)).astype(np.float32)
    features[3] = 0
    graph = make_random_graph(features=sp.csr_array(features))
    made = scr.NodeClassifier(
        "mlp", "none", data={"scale": scale, "reduce": reduce, "reduce_to": 5}, **QUICK
    ).fit(graph)
    file = made.export_onnx(tmp_path / "prepare.onnx", part="preparation")
    prepared = run_onnx(file, {"features": features})
    np.testing.assert_allclose(prepared, made.onnx_inputs()["hops"][:, 0], atol=1e-5)
    if scale == "standard":
        from sklearn.preprocessing import StandardScaler

        np.testing.assert_allclose(prepared, StandardScaler().fit_transform(features), atol=1e-5)


def test_several_targets_have_a_probability_each(tmp_path):
    labels = np.random.default_rng(1).integers(0, 2, (60, 3))
    graph = make_random_graph(labels=labels)
    made = scr.NodeClassifier({"name": "sign", **SMALL}, "none", **QUICK).fit(graph)
    file = made.export_onnx(tmp_path / "model.onnx")
    np.testing.assert_allclose(run_onnx(file, made.onnx_inputs()), made.predict_proba(), atol=1e-5)


def test_a_model_over_subsets_of_relations_is_exported(tmp_path):
    graph = make_typed_graph()
    made = scr.NodeClassifier({"name": "nars-sign", **SMALL}, "none", **QUICK).fit(graph)
    file = made.export_onnx(tmp_path / "model.onnx")
    np.testing.assert_allclose(run_onnx(file, made.onnx_inputs()), made.predict_proba(), atol=1e-5)
    with pytest.raises(RunError, match="several types"):
        made.export_onnx(tmp_path / "prepare.onnx", part="preparation")


def test_a_run_is_exported_from_the_command_line(tmp_path):
    graph = make_random_graph(nodes=60)
    made = scr.NodeClassifier({"name": "sign", **SMALL}, "none", **QUICK).fit(graph)
    made.save(tmp_path / "run")
    file = tmp_path / "model.onnx"
    result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--out", str(file)])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(run_onnx(file, made.onnx_inputs()), made.predict_proba(), atol=1e-5)
    facts = {each.key: each.value for each in onnx.load(str(file)).metadata_props}
    assert facts["scr.classes"] == '["0", "1", "2"]'
    assert facts["scr.encoder"] == "sign"
    for wrong in (["--out", str(tmp_path / "m.pt")], ["--out", str(file), "--part", "tail"]):
        result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), *wrong])
        assert result.exit_code == 2
        assert "expected" in result.output
    assert not (tmp_path / "m.pt").exists()


def test_what_cannot_be_exported_is_refused(tmp_path, monkeypatch):
    graph = make_random_graph(nodes=60)
    file = tmp_path / "model.onnx"
    coupled = scr.NodeClassifier({"name": "gcn", **SMALL}, "none", **QUICK).fit(graph)
    with pytest.raises(RunError, match="`gcn` reads the edges"):
        coupled.export_onnx(file)
    with pytest.raises(RunError, match="`gcn` reads the edges"):
        coupled.onnx_inputs()
    plain = scr.NodeClassifier("ssgc", "none", **QUICK).fit(graph)
    with pytest.raises(ConfigError, match="part"):
        plain.export_onnx(file, part="tail")
    several = scr.NodeClassifier("ssgc")
    several._predictor = EnsemblePredictor.__new__(EnsemblePredictor)
    several._predictor.model = plain.predictor_.model
    with pytest.raises(RunError, match="average of several models"):
        several.export_onnx(file)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(SCRError, match="pip install onnx onnxscript"):
        plain.export_onnx(file)
    assert not file.exists()

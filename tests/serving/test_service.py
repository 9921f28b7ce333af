"""`scr serve`: answers over HTTP, clear refusals, limits, and a process that stops cleanly."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
import urllib.error
import urllib.request
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.conftest import make_random_graph

from scr.classifier import NodeClassifier
from scr.prediction import open_run
from scr.serving import Limits, Service
from scr.serving._requests import Request, RequestError
from scr.tables import TableOptions, read_table_graph

pytest.importorskip("fastapi")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer versions would rather have another package
    from fastapi.testclient import TestClient

from scr.serving import make_app

NAMES = ("ant", "bee", "cat")


def fitted(graph):
    return NodeClassifier(
        {"name": "sign", "hidden": 8}, "none", preset="none", epochs=5
    ).fit(graph)  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    return make_random_graph(class_names=NAMES, ids=[f"n{number}" for number in range(60)])


@pytest.fixture(scope="module")
def run(graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    store = graph.save(folder / "store")
    return fitted(graph).save(folder / "run", source=str(store))


@pytest.fixture(scope="module")
def client(run):
    limits = Limits(nodes=5, edges=7, bytes=4000)
    return TestClient(make_app(Service(open_run(run), limits=limits, coverage=0.8)))


@pytest.fixture(scope="module")
def classifier(run):
    return NodeClassifier.load(run)


def predictions(response):
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


def test_known_nodes_are_answered_as_the_classifier_predicts_them(client, classifier):
    answers = predictions(client.post("/predict", json={"ids": ["n7", "n3", "n7"]}))
    expected = classifier.predict_proba(["n7", "n3", "n7"])
    sets = classifier.predict_sets(["n7", "n3", "n7"], 0.8)
    for answer, row, inside in zip(answers, expected, sets, strict=True):
        assert answer["class"] == NAMES[row.argmax()]
        assert answer["probability"] == pytest.approx(row.max(), abs=1e-6)
        assert answer["set"] == [NAMES[each] for each in np.flatnonzero(inside)]
        assert "probabilities" not in answer
    assert [answer["id"] for answer in answers] == ["n7", "n3", "n7"]


def test_all_probabilities_and_another_coverage_on_request(client, classifier):
    asked = {"ids": ["n0"], "probabilities": True, "coverage": 0.5}
    (answer,) = predictions(client.post("/predict", json=asked))
    np.testing.assert_allclose(
        [answer["probabilities"][name] for name in NAMES],
        classifier.predict_proba(["n0"])[0],
        atol=1e-6,
    )
    inside = classifier.predict_sets(["n0"], 0.5)[0]
    assert answer["set"] == [NAMES[each] for each in np.flatnonzero(inside)]


def test_new_nodes_are_answered_as_python_predicts_them(client, classifier):
    rows = np.arange(16, dtype=float).reshape(2, 8) / 10
    edges = [["x", "n3"], ["n4", "x"], ["x", "y"]]
    asked = {
        "nodes": [
            {"id": name, "features": row.tolist()} for name, row in zip("xy", rows, strict=True)
        ],
        "edges": edges,
        "probabilities": True,
    }
    answers = predictions(client.post("/predict", json=asked))
    expected = classifier.predict_new(rows, edges, ids=["x", "y"]).probabilities
    found = [[answer["probabilities"][name] for name in NAMES] for answer in answers]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # They are forgotten again.
    assert client.post("/predict", json={"ids": ["x"]}).status_code == 404


def test_what_the_run_is(client):
    assert client.get("/health").json() == {"status": "ok"}
    described = client.get("/").json()
    assert described["classes"] == list(NAMES)
    assert described["known_nodes"] == 60
    assert described["features"] == 8
    assert described["most_nodes"] == 5
    assert described["most_edges"] == 7
    assert described["coverage"] == 0.8


NODE = {"id": "x", "features": [0] * 8}
WRONG = {
    "unknown id": ({"ids": ["n1", "x9"]}, 404, "The id `x9` is not one of the graph `random`"),
    "unknown end": (
        {"nodes": [NODE], "edges": [["x", "z"]]}, 422, "The id `z` is not one of the graph",
    ),
    "taken": ({"nodes": [{**NODE, "id": "n1"}]}, 422, "`n1` is one of the graph `random` already"),
    "known edge": ({"nodes": [NODE], "edges": [["n0", "n0"]]}, 422, "between two known nodes"),
    "weights": ({"nodes": [NODE], "edges": [["x", "n0", 2]]}, 422, "edges without weights"),
    "negative": ({"nodes": [NODE], "edges": [["x", "n0", -2]]}, 422, "no finite number from 0 on"),
    "columns": ({"nodes": [{"id": "x", "features": [1]}]}, 422, "a list of 8 numbers"),
    "texts": ({"nodes": [{"id": "x", "features": ["1"] * 8}]}, 422, "a list of 8 numbers"),
    "huge": ({"nodes": [{"id": "x", "features": [10**400] * 8}]}, 422, "finite"),
    "field": ({"nodes": [{**NODE, "age": 3}]}, 422, "expected `id` and `features`"),
    "no id": ({"nodes": [{"features": [0] * 8}]}, 422, "Node 0 of `nodes` has no `id`"),
    "id": ({"ids": [["n1"]]}, 422, "`ids` has a list; expected a text or a whole number"),
    "true": ({"ids": [True]}, 422, "has true or false; expected a text"),
    "both": ({"ids": ["n1"], "nodes": [NODE]}, 422, "both or neither"),
    "neither": ({}, 422, "both or neither"),
    "empty": ({"ids": []}, 422, "`ids` is an empty list"),
    "edges alone": ({"ids": ["n1"], "edges": []}, 422, "`edges` without `nodes`"),
    "a list": ([1], 422, "The request is a list; expected an object"),
    "no field": ({"ids": ["n1"], "path": "/etc/passwd"}, 422, "There is no field `path`"),
    "edge": ({"nodes": [NODE], "edges": [["x"]]}, 422, "Edge 0 is no pair of ids"),
    "edges": ({"nodes": [NODE], "edges": "x"}, 422, "`edges` is a text; expected a list"),
    "coverage": ({"ids": ["n1"], "coverage": 2}, 422, "no number between 0 and 1"),
    "probabilities": ({"ids": ["n1"], "probabilities": 1}, 422, "expected true or false"),
    "many": ({"ids": ["n1"] * 6}, 413, "names 6 nodes; expected at most 5"),
    "long id": ({"ids": ["n" * 257]}, 422, "has 257 characters; expected at most 256"),
    "long number": ({"ids": [10**300]}, 422, "has 301 characters; expected at most 256"),
    "long end": (
        {"nodes": [NODE], "edges": [["x", "n" * 257]]}, 422, "An end of edge 0 has 257 characters",
    ),
    "many edges": (
        {"nodes": [NODE], "edges": [["x", "n0"]] * 8}, 413, "has 8 edges; expected at most 7",
    ),
    "half a character": ({"ids": ["\ud800"]}, 400, "half of a character"),
    "half in a field": ({"ids": ["n1"], "\udfff": 1}, 400, "half of a character"),
    "huge weight": (
        {"nodes": [NODE], "edges": [["x", "n0", 10**400]]}, 422, "no finite number from 0 on",
    ),
    "large": ({"ids": ["n" * 5000]}, 413, "larger than 4,000 bytes"),
}  # fmt: skip


def check_refusal(response, status, message):
    assert response.status_code == status, response.text
    content = response.json()
    assert message in content["error"]
    assert "\n" not in content["error"]
    assert "Traceback" not in response.text
    assert len(response.text) < 500


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_answered_is_refused_in_a_sentence(client, name):
    content, status, message = WRONG[name]
    check_refusal(client.post("/predict", content=json.dumps(content)), status, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Expecting value at line 1, column 1"),
        (b'{"ids": [', "not JSON"),
        (b'{"ids": [NaN]}', "NaN is no number of JSON"),
        (b"\xff\xfe", "it is not UTF-8"),
        (b"[" * 3900, "not JSON"),
        (b"1" * 3900, "is a number; expected an object"),
    ],
)
def test_what_is_not_json_is_refused(client, body, message):
    response = client.post("/predict", content=body)
    check_refusal(response, 422 if "number;" in message else 400, message)


def test_a_weight_beyond_the_largest_number_is_refused(client):
    body = b'{"nodes": [{"id": "x", "features": [0]}], "edges": [["x", "n0", 1e400]]}'
    check_refusal(client.post("/predict", content=body), 422, "no finite number from 0 on")


def test_characters_outside_the_basic_plane_are_text(client):
    response = client.post("/predict", content=rb'{"ids": ["\ud83d\ude00"]}')
    check_refusal(response, 404, "The id `\N{GRINNING FACE}` is not one")


def test_a_long_id_does_not_widen_all_edges(run):
    client = TestClient(make_app(Service(open_run(run))))
    long = "x" * 256
    edges = [["y", f"n{number % 60}"] for number in range(50_000)]
    asked = {
        "nodes": [{**NODE, "id": name} for name in (long, "y")],
        "edges": [*edges, [long, "y"]],
    }
    tracemalloc.start()
    answers = predictions(client.post("/predict", json=asked))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [answer["id"] for answer in answers] == [long, "y"]
    assert peak < 60e6  # 256 characters of 4 bytes for each end would be 102 MB


def test_requests_are_not_read_on_the_event_loop(client, monkeypatch):
    threads = []

    def parse(*_):
        threads.append(asyncio._get_running_loop())
        raise RequestError(422, "seen")

    monkeypatch.setattr(Request, "parse", parse)
    check_refusal(client.post("/predict", json={"ids": ["n1"]}), 422, "seen")
    assert threads == [None]


def test_a_body_of_unknown_length_is_cut_off_at_the_limit(client):
    sent = []

    def parts():
        for number in range(100):
            sent.append(number)
            yield b" " * 1000

    check_refusal(client.post("/predict", content=parts()), 413, "larger than 4,000 bytes")


def test_other_paths_and_methods_are_refused(client):
    check_refusal(client.get("/docs"), 404, "`POST /predict`")
    check_refusal(client.get("/predict"), 405, "`POST /predict`")


def test_an_error_that_nobody_expected_is_answered_without_its_traceback(run, monkeypatch, caplog):
    service = Service(open_run(run))
    monkeypatch.setattr(service, "answer", lambda request: 1 / 0)
    response = TestClient(make_app(service)).post("/predict", json={"ids": ["n1"]})
    check_refusal(response, 500, "The service could not answer")
    assert "ZeroDivisionError" in caplog.text
    assert "Traceback" not in caplog.text


def test_known_nodes_are_computed_once(run, monkeypatch):
    predictor = open_run(run)
    service = Service(predictor)
    monkeypatch.setattr(predictor, "probabilities", lambda *_: pytest.fail("computed again"))
    client = TestClient(make_app(service))
    assert client.post("/predict", json={"ids": ["n1"]}).status_code == 200


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 40)
    nodes = pd.DataFrame(
        {
            "id": range(100, 140),
            "price": kinds + rng.random(40),
            "color": np.array(["red", "blue"])[kinds],
            "label": np.array(["toy", "tool"])[kinds],
        }
    )
    edges = pd.DataFrame(100 + rng.integers(0, 40, (90, 2)), columns=["source", "target"])
    edges["weight"] = rng.random(90)
    read = read_table_graph(nodes, edges, TableOptions())
    graph = read.graph.with_split(np.arange(20), np.arange(20, 40))
    run = fitted(graph).save(folder / "run", source=str(graph.save(folder / "store")))
    read.preparation.save(run)
    return NodeClassifier.load(run), TestClient(make_app(Service(open_run(run))))


def test_new_nodes_by_the_columns_of_the_table(shop):
    classifier, client = shop
    assert client.get("/").json()["columns"] == {"price": "number", "color": "category"}
    asked = {
        "nodes": [{"id": 7, "color": "red", "price": 1}, {"id": "8", "price": 0.5, "shelf": 1}],
        "edges": [[7, 100, 0.5], ["7", 8]],
        "probabilities": True,
    }
    response = client.post("/predict", json=asked)
    answers = predictions(response)
    frame = pd.DataFrame({"id": [7, 8], "color": ["red", None], "price": [1, 0.5]})
    edges = pd.DataFrame({"source": [7, 7], "target": [100, 8], "weight": [0.5, 1.0]})
    expected = classifier.predict_new(frame, edges)
    found = [[answer["probabilities"][name] for name in expected.class_names] for answer in answers]
    np.testing.assert_allclose(found, expected.probabilities, atol=1e-6)
    assert [answer["id"] for answer in answers] == [7, 8]
    assert "`shelf`" in response.json()["notes"][0]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"id": 7, "color": "red"}, "no column `price`"),
        ({"id": 7}, "no columns `price`, `color`"),
        ({"id": 7, "color": "red", "price": "cheap"}, "`price`"),
        ({"id": 7, "color": ["red"], "price": 1}, "holds a list or an object"),
        ({"id": "new", "color": "red", "price": 1}, "`new` is not a whole number"),
    ],
)
def test_columns_that_do_not_fit_are_named(shop, node, message):
    check_refusal(shop[1].post("/predict", json={"nodes": [node]}), 422, message)


@pytest.mark.parametrize("price", ["1e400", "-1e400", str(10**400)])
@pytest.mark.parametrize("other", ["1", '"1"'])
def test_a_number_of_a_column_that_is_not_finite_is_refused(shop, price, other):
    node = '{"id": %d, "color": "red", "price": %s}'
    body = f'{{"nodes": [{node % (7, price)}, {node % (8, other)}]}}'
    response = shop[1].post("/predict", content=body)
    check_refusal(response, 422, "`price` holds a number that is not finite")


def test_several_targets(tmp_path):
    targets = np.random.default_rng(0).integers(0, 2, (60, 3))
    graph = make_random_graph(labels=targets, class_names=NAMES)
    store = graph.save(tmp_path / "store")
    run = fitted(graph).save(tmp_path / "run", source=str(store))
    client = TestClient(make_app(Service(open_run(run))))
    (answer,) = predictions(client.post("/predict", json={"ids": [3]}))
    row = NodeClassifier.load(run).predict_proba([3])[0]
    assert answer["classes"] == [NAMES[each] for each in np.flatnonzero(row > 0.5)]
    assert "set" not in answer
    assert "one class per node" in client.get("/").json()["no_sets"]


def asked_when_ready(address, content):
    """The process says its address just before it listens there."""
    request = urllib.request.Request(address, json.dumps(content).encode(), method="POST")
    for _ in range(200):
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.loads(response.read())
        except urllib.error.URLError:
            time.sleep(0.1)
    return pytest.fail("the service did not answer")


def test_a_process_serves_and_stops_at_ctrl_c(run):
    command = [sys.executable, "-m", "scr.cli", "serve", str(run), "--port", "0"]
    served = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    with served as process:
        try:
            line = process.stdout.readline()
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+", line)
            answer = asked_when_ready(f"{address}/predict", {"ids": ["n1"]})
            assert answer["predictions"][0]["id"] == "n1"
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert "Stopped" in out
    assert errors == ""


def test_a_port_that_is_taken_is_said_before_anything_is_computed(run):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "scr.cli", "serve", str(run), "--port", port],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "expected one that is free" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_package_is_named_with_what_to_install(run):
    code = (
        "import sys; sys.modules['uvicorn'] = None; from scr.cli import main; "
        f"main(['serve', {str(run)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 2
    assert "needs the package `uvicorn`" in done.stderr
    assert "the extra `serve`: `pip install fastapi uvicorn`" in done.stderr

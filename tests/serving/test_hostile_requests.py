"""Hostile requests, a fixed selection; `campaigns/damage_requests.py` makes as many as wanted."""

import json
import resource
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.conftest import make_random_graph

from scr.classifier import NodeClassifier
from scr.prediction import open_run
from scr.serving import Service
from scr.serving._requests import RequestError
from scr.tables import TableOptions, read_table_graph

pytest.importorskip("fastapi")
pytest.importorskip("campaigns", reason="a package without its campaigns")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer versions would rather have another package
    from fastapi.testclient import TestClient

from campaigns.damage_requests import HostileRequest, Target, hostile_request, problem
from scr.serving import make_app

REQUESTS = 150


def served(graph, folder, preparation=None):
    fitted = NodeClassifier({"name": "sign", "hidden": 8}, "none", preset="none", epochs=2).fit(
        graph
    )
    run = fitted.save(folder / "run", source=str(graph.save(folder / "store")))
    if preparation is not None:
        preparation.save(run)
    service = Service(open_run(run))
    return service, TestClient(make_app(service))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    ids = [f"n{number}" for number in range(60)]
    service, client = served(make_random_graph(ids=ids), tmp_path_factory.mktemp("numbers"))
    return client, Target(ids, 8, service.limits.bytes)


@pytest.fixture(scope="module")
def columns(tmp_path_factory):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 40)
    nodes = pd.DataFrame({
        "id": range(100, 140), "price": kinds + rng.random(40),
        "color": np.array(["red", "blue"])[kinds], "label": np.array(["toy", "tool"])[kinds],
    })  # fmt: skip
    edges = pd.DataFrame(100 + rng.integers(0, 40, (90, 2)), columns=["source", "target"])
    read = read_table_graph(nodes, edges, TableOptions())
    graph = read.graph.with_split(np.arange(20), np.arange(20, 40))
    service, client = served(graph, tmp_path_factory.mktemp("columns"), read.preparation)
    return client, Target(list(range(100, 140)), ("price", "color"), service.limits.bytes)


@pytest.mark.parametrize("kind", ["numbers", "columns"])
def test_hostile_requests_are_answered_or_refused_in_a_sentence(kind, request):
    client, target = request.getfixturevalue(kind)
    good = json.dumps({"ids": target.known[:3], "probabilities": True})
    before = client.post("/predict", content=good)
    assert before.status_code == 200
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    statuses = set()
    for seed in range(REQUESTS):
        sent = hostile_request(seed, target)
        headers = [(name, value.encode("latin-1")) for name, value in sent.headers.items()]
        answer = client.request(sent.method, sent.path, content=sent.body, headers=headers)
        assert problem(answer.status_code, answer.text, sent) is None, (seed, answer.text[:500])
        statuses.add(answer.status_code)
    assert {200, 400, 404, 413, 422} <= statuses
    assert client.post("/predict", content=good).content == before.content
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert grown * 1024 < 500e6  # a body of 8 MiB as objects of Python


def test_a_message_repeats_no_line_ends_controls_or_marks_of_direction(numbers):
    client, _ = numbers
    asked = {"ids": ["n1"], "a\n\r\x1b[2J\u202eb\u2028": 1}
    message = client.post("/predict", json=asked).json()["error"]
    assert message.startswith(r"There is no field `a\u000a\u000d\u001b[2J\u202eb\u2028`; expected")
    assert RequestError(422, "plain text: é").message == "plain text: é"


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (500, '{"error": "x"}'),
        (422, '{"error": "Traceback (most recent call last)"}'),
        (422, '{"error": "no /home/me/run"}'),
        (422, '{"error": "two\\nlines"}'),
        (404, "Not Found"),
        (400, json.dumps({"error": "x" * 3000})),
    ],
)
def test_what_breaks_the_promise_is_seen(status, answer):
    assert problem(status, answer, HostileRequest("POST", "/predict")) is not None

"""Damaged files of runs without checksums, of checkpoints and comparisons: an answer or a sentence.

Runs of this version have checksums, which find all of this at once; older runs have none.
"""

import copy
import json
import random
import warnings

import pytest
from tests.campaigns import seeds
from tests.conftest import make_random_graph

import scr
from scr.cli.commands.report import report
from scr.errors import SCRError
from scr.experiments import RUNS, Runner, compare, plan
from scr.training import fit, graph_facts, resolve

WRONG = [None, "x", -1, float("inf"), float("nan"), 10**30, 2**40, [], {}, [[[1]]], True, 0, 1.5,
         {"a": 1}, ["a"], [None]]  # fmt: skip
CASES = 60


def places(value, above=()):
    """Where something is in a JSON value; of a list, the first entries will do."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3])
    for key, each in inner:
        yield (*above, key)
        if isinstance(each, dict | list):
            yield from places(each, (*above, key))


def changed_json(chance, value):
    value = copy.deepcopy(value)
    found = list(places(value))
    *above, last = chance.choice(found)
    inner = value
    for key in above:
        inner = inner[key]
    if chance.random() < 0.3:
        del inner[last]
    else:
        inner[last] = copy.deepcopy(chance.choice(WRONG))
    return value


def changed_bytes(chance, content):
    changed, place = bytearray(content), chance.randrange(len(content))
    kind = chance.randrange(4)
    if kind == 0:
        return content[:place]
    if kind == 1:
        changed[place] = chance.randrange(256)
    elif kind == 2:
        changed[min(place, 300)] = chance.randrange(256)
    else:
        del changed[place : place + chance.randrange(1, 50)]
    return bytes(changed)


def changed_header(chance, content):
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    stored = header.get("__metadata__", {})
    if stored and chance.random() < 0.5:
        name = chance.choice(sorted(stored))
        is_json = stored[name][:1] in ("{", "[") and len(stored[name]) > 2
        value = json.dumps(changed_json(chance, json.loads(stored[name]))) if is_json else "x"
        stored[name] = value
    else:
        header = changed_json(chance, header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def changed(chance, content, name):
    if chance.random() < 0.25:
        return changed_bytes(chance, content)
    if name.endswith(".json"):
        return json.dumps(changed_json(chance, json.loads(content))).encode()
    if name.endswith(".jsonl"):
        lines = content.splitlines()
        place = chance.randrange(len(lines))
        lines[place] = json.dumps(changed_json(chance, json.loads(lines[place]))).encode()
        return b"\n".join(lines) + b"\n"
    if name.endswith(".safetensors"):
        return changed_header(chance, content)
    return changed_bytes(chance, content)


def damage(folder, names, use, seed, cases=CASES):
    """Use a folder again and again, each time with one file damaged; only our errors may come."""
    chance, refused = random.Random(seed), 0
    for _ in range(cases):
        name = chance.choice(names)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(changed(chance, content, name))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(folder)
        except SCRError:
            refused += 1
        (folder / name).write_bytes(content)
    assert refused


@pytest.fixture(scope="module")
def graph():
    return make_random_graph()


@pytest.fixture(scope="module")
def run(graph, tmp_path_factory):
    classifier = scr.NodeClassifier({"name": "gamlp", "hidden": 8}, "scr-m", epochs=3).fit(graph)
    out = classifier.save(tmp_path_factory.mktemp("run") / "run")
    (out / "checksums.json").unlink()
    return out


@seeds(50)
def test_predictions_of_a_damaged_run(run, graph, seed):
    def use(folder):
        loaded = scr.NodeClassifier.load(folder, graph=graph)
        loaded.predict_proba([0, 1, 5])
        loaded.summary()
        assert isinstance(loaded.n_features_in_, int)
        assert isinstance(loaded.history_, list)

    names = ["run.json", "metrics.json", "model.safetensors", "split.npz", "calibration.npz",
             "history.jsonl"]  # fmt: skip
    damage(run, names, use, seed)


@seeds(50)
def test_pages_of_a_damaged_run(run, seed):
    names = ["run.json", "metrics.json", "history.jsonl", "predictions.parquet", "breakdown.json",
             "explanation.json"]  # fmt: skip
    damage(run, names, lambda folder: report([folder]), seed, cases=CASES // 3)


@seeds(50)
def test_pages_of_a_damaged_comparison(graph, tmp_path, seed):
    tasks = plan(["ssgc", "gamlp"], ["none", "scr"], range(2), layers=[{"training": {"epochs": 1}}])
    compare(Runner(graph, out=tmp_path), tasks)
    damage(tmp_path, ["compare.json"], lambda folder: report([folder]), seed, cases=CASES // 3)
    before = (tmp_path / RUNS).read_bytes()
    chance = random.Random(seed)
    for _ in range(3):  # damaged records are run again
        (tmp_path / RUNS).write_bytes(changed(chance, before, RUNS))
        compare(Runner(graph, out=tmp_path), tasks)


@seeds(50)
def test_resuming_from_a_damaged_checkpoint(graph, tmp_path, seed):
    file = tmp_path / "checkpoint.safetensors"
    layers = [{"training": {"epochs": 2, "batch_size": 8}, "consistency": {"warmup": 0}}]
    recipe = resolve(graph_facts(graph), encoder="ssgc", regularizer="scr-m", layers=layers)
    seen = []
    fit(graph, recipe, checkpoint=file, on_epoch=seen.append, should_stop=lambda: len(seen) == 1)
    damage(tmp_path, [file.name], lambda _: fit(graph, recipe, checkpoint=file), seed)

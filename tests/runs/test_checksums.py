"""A finished run is used as it was written, or refused in one sentence."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.conftest import make_random_graph
from tests.forging import forge

import scr
from scr.cli import main
from scr.errors import RunError, StoreError
from scr.graph import open_store
from scr.runs import verify_run


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return make_random_graph().save(tmp_path_factory.mktemp("store") / "graph.store")


@pytest.fixture(scope="module")
def run(graph, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    classifier = scr.NodeClassifier("ssgc", "scr", epochs=3).fit(open_store(graph))
    return classifier.save(out)


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "moved" / "elsewhere")


def command(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


SEALED = ["run.json", "metrics.json", "history.jsonl", "model.safetensors", "split.npz",
          "calibration.npz", "explanation.json", "breakdown.json"]  # fmt: skip


@pytest.mark.parametrize("name", SEALED)
def test_a_changed_byte_is_found_before_the_run_is_used(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(StoreError, match=rf"{name}` has changed since it was written"):
        scr.NodeClassifier.load(copy)
    assert command("report", copy) == 2
    assert command("verify", copy) == 2


def test_predictions_are_compared_where_they_are_read(copy, capsys):
    content = bytearray((copy / "predictions.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "predictions.parquet").write_bytes(content)
    scr.NodeClassifier.load(copy)  # which makes its own
    assert command("report", copy) == 2
    assert "predictions.parquet` has changed" in " ".join(capsys.readouterr().err.split())


def test_a_run_may_be_moved_get_notes_and_a_new_page(copy):
    (copy / "notes.txt").write_text("mine")
    assert command("report", copy) == 0
    assert command("report", copy) == 0
    assert command("verify", copy) == 0
    assert {*SEALED, "predictions.parquet"} == set(verify_run(copy))
    scr.NodeClassifier.load(copy)


def test_a_record_that_was_edited_is_used_once_the_checksums_are_removed(copy):
    record = json.loads((copy / "run.json").read_text())
    record["notes"] = ["mine"]
    (copy / "run.json").write_text(json.dumps(record))
    with pytest.raises(StoreError, match=r"hint: .*remove `checksums\.json` if that was meant"):
        scr.NodeClassifier.load(copy)
    (copy / "checksums.json").unlink()
    assert scr.NodeClassifier.load(copy).notes_ == ["mine"]


def test_numbers_of_the_graph_of_a_run_are_checked_though_its_checksums_agree(copy, capsys):
    make_random_graph().save(copy / "graph")
    assert command("verify", copy) == 0
    indices = np.load(copy / "graph" / "indices.npy")
    indices[5] = 2**31 - 1
    forge(copy / "graph", "indices", indices)
    assert command("verify", copy) == 2
    assert "indices.npy` holds 2147483647" in " ".join(capsys.readouterr().err.split())


def test_a_missing_file_is_named(copy):
    (copy / "calibration.npz").unlink()
    with pytest.raises(StoreError, match=r"calibration.npz` is missing"):
        scr.NodeClassifier.load(copy)
    assert command("report", copy) == 0  # a page of what is there is still worth reading


def test_a_run_without_checksums_is_read_and_verified(copy, capsys):
    (copy / "checksums.json").unlink()
    scr.NodeClassifier.load(copy)
    assert command("verify", copy) == 0
    assert "no checksums" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_also_in_old_runs(copy, value, capsys):
    (copy / "checksums.json").unlink()
    file = copy / "model.safetensors"
    with safe_open(file, framework="pt") as opened:
        header = opened.metadata()
    tensors = load_file(file)
    name = next(name for name in tensors if name.startswith("encoder/"))
    tensors[name].view(-1)[0] = value
    save_file(tensors, file, metadata=header)
    with pytest.raises(StoreError, match="weights that are not finite numbers, in"):
        scr.NodeClassifier.load(copy)
    if value != value:
        assert command("verify", copy) == 2
        assert "not finite" in capsys.readouterr().err


@pytest.mark.parametrize("content", ['{"run.json": 3}', "[]", '{"../../etc/passwd": "0"}', "{"])
def test_damaged_checksums_are_refused(copy, content):
    (copy / "checksums.json").write_text(content)
    with pytest.raises(StoreError, match=r"checksums\.json"):
        scr.NodeClassifier.load(copy)


def test_a_run_killed_before_its_metrics_is_unfinished_and_resumes(graph, tmp_path):
    out = tmp_path / "run"
    arguments = ["train", graph, "--out", out, "--encoder", "ssgc", "--set", "training.epochs=3"]
    assert command(*arguments) == 0
    before = (out / "model.safetensors").read_bytes()
    (out / "metrics.json").unlink()
    with pytest.raises(RunError, match="expected a finished run"):
        scr.NodeClassifier.load(out)
    assert command(*arguments, "--resume") == 0
    assert (out / "model.safetensors").read_bytes() == before
    assert command("verify", out) == 0


@pytest.mark.stress
def test_checksums_hold_for_a_copy_that_is_saved_with_another_source(tmp_path):
    graph = make_random_graph()
    classifier = scr.NodeClassifier(
        effort="best", time_limit=8, recipe={"training": {"epochs": 2}}
    ).fit(graph)
    saved = classifier.save(tmp_path / "copy")
    assert json.loads((saved / "ensemble.json").read_text())["models"]
    assert command("verify", saved) == 0
    model = next(saved.glob("models/*/fold-*/model.safetensors"))
    model.write_bytes(model.read_bytes()[:-4] + b"abcd")
    with pytest.raises(StoreError, match=r"model.safetensors` has changed"):
        scr.NodeClassifier.load(saved, graph=graph)
    assert command("verify", saved) == 2


def test_a_model_that_does_not_fit_its_run_is_one_sentence(copy):
    (copy / "checksums.json").unlink()
    file = copy / "model.safetensors"
    tensors = load_file(file)
    shape = json.dumps({"features": 2**40, "hops": 3, "classes": 3})
    features = json.dumps({"scale": "none", "columns": 2**40, "steps": []})
    save_file(tensors, file, metadata={"shape": shape, "features": features})
    with pytest.raises(StoreError, match=r"model.safetensors` does not fit .*run.json"):
        scr.NodeClassifier.load(copy)
    save_file({"a": torch.ones(1)}, file)
    with pytest.raises(StoreError, match="has no `shape` in its header"):
        scr.NodeClassifier.load(copy)


def test_equal_runs_have_equal_models(graph, tmp_path):
    stored = open_store(graph)
    models = []
    for name in "ab":
        fitted = scr.NodeClassifier("sign", "scr-m", epochs=3, seed=5).fit(stored)
        models.append((fitted.save(tmp_path / name) / "model.safetensors").read_bytes())
    assert models[0] == models[1]
    size = int.from_bytes(models[0][:8], "little")
    header = json.loads(models[0][8 : 8 + size])
    assert size % 8 == 0
    assert list(header["__metadata__"]) == sorted(header["__metadata__"])
    assert np.array_equal([*header], sorted(header))

"""Logs are read back by the tools that they are for."""

import json
import sys

import pytest
from tests.conftest import make_random_graph
from typer.testing import CliRunner

import scr
from scr.cli import app
from scr.errors import ConfigError, SCRError
from scr.training import MLflowLog, TensorBoardLog, open_log

QUICK = {"epochs": 6, "evaluate_every": 2}
SCR = {"threshold": 0.4, "warmup": 1}


def read_events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {
        name: {each.step: each.value for each in events.Scalars(name)}
        for name in events.Tags()["scalars"]
    }


@pytest.fixture
def _file_store(monkeypatch):
    """MLflow would rather have a database; a folder is what needs no other package."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


def test_tensorboard_reads_every_epoch(tmp_path):
    pytest.importorskip("tensorboard")
    classifier = scr.NodeClassifier("ssgc", "scr", consistency=SCR, **QUICK)
    with TensorBoardLog(tmp_path) as log:
        classifier.fit(make_random_graph(), on_epoch=log)
    read = read_events(tmp_path)
    assert sorted(read["supervised_loss"]) == [1, 2, 3, 4, 5, 6]
    assert sorted(read["valid_accuracy"]) == [2, 4, 6]
    for each in classifier.history_:
        for name in ("supervised_loss", "valid_accuracy", "confident_nodes"):
            assert read[name][each["epoch"]] == pytest.approx(each[name], rel=1e-6)
    assert "epoch" not in read


@pytest.mark.usefixtures("_file_store")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_mlflow_has_the_numbers_and_the_settings(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    graph = make_random_graph()
    classifier = scr.NodeClassifier("ssgc", "none", **QUICK)
    uri = (tmp_path / "mlruns").as_uri()
    with MLflowLog(uri, name="first", settings=classifier.resolve(graph).tables()) as log:
        classifier.fit(graph, on_epoch=log)
    with pytest.raises(ZeroDivisionError), MLflowLog(uri, name="second"):
        1 / 0  # noqa: B018
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("scr")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert runs["first"].info.status == "FINISHED"
    assert runs["second"].info.status == "FAILED"
    assert runs["first"].data.params["training.epochs"] == "6"
    assert runs["first"].data.params["encoder.name"] == "ssgc"
    history = client.get_metric_history(log.run_id, "valid_accuracy")
    assert {each.step: each.value for each in history} == {
        each["epoch"]: each["valid_accuracy"] for each in classifier.history_
    }


def test_a_log_changes_nothing_about_the_training(tmp_path):
    pytest.importorskip("tensorboard")
    graph = make_random_graph()
    plain = scr.NodeClassifier("ssgc", "none", **QUICK).fit(graph)
    with TensorBoardLog(tmp_path) as log:
        logged = scr.NodeClassifier("ssgc", "none", **QUICK).fit(graph, on_epoch=log)
    assert (plain.predict_proba() == logged.predict_proba()).all()


def test_the_command_line_logs(tmp_path):
    pytest.importorskip("tensorboard")
    store = make_random_graph().save(tmp_path / "store")
    command = ["train", str(store), "--out", str(tmp_path / "run"), "--encoder", "ssgc",
               "--set", "training.epochs=4", "--set", "training.evaluate_every=2"]  # fmt: skip
    result = CliRunner().invoke(app, [*command, "--log", f"tensorboard:{tmp_path / 'events'}"])
    assert result.exit_code == 0, result.output
    read = read_events(tmp_path / "events")
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    assert read["valid_accuracy"] == pytest.approx(
        {each["epoch"]: each["valid_accuracy"] for each in history}
    )
    wrong = [*command[:3], str(tmp_path / "other"), "--log", "wandb:here"]
    result = CliRunner().invoke(app, wrong)
    assert result.exit_code == 2
    assert "expected tensorboard:FOLDER or mlflow:URI" in result.output
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("text", ["tensorboard", "tensorboard:", "wandb:x", ""])
def test_other_logs_are_refused(text):
    with pytest.raises(ConfigError, match="tensorboard:FOLDER or mlflow:URI"):
        open_log(text)


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for kind, package in ((TensorBoardLog, "tensorboard"), (MLflowLog, "mlflow-skinny")):
        with pytest.raises(SCRError, match=f"pip install {package}"):
            kind(tmp_path)

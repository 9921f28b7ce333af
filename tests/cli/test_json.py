"""`--json`: one object on stdout from every command, errors too, and nothing else."""

import inspect
import json
import typing

import pytest
import typer

from scr.cli import app, main
from scr.cli._ending import Report

EDGES = "source,target\na,b\nb,c\nc,d\nd,e\ne,f\n"
NODES = (
    "id,label,f1,split\na,x,1,train\nb,y,2,train\nc,x,3,val\nd,y,4,val\ne,x,5,test\nf,y,6,test\n"
)
ONE = ["--set", "training.epochs=1"]


@pytest.fixture
def scr(capsys):
    """Run a command in this process with `--json`; returns what stdout holds, read as JSON."""

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as caught:
            main([*(str(argument) for argument in arguments), "--json"])
        printed = capsys.readouterr()
        assert (caught.value.code or 0) == code, printed.err
        assert printed.out.count("\n") == 1
        return json.loads(printed.out, parse_constant=pytest.fail)

    return run


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with tables of a small graph, their store, and a finished run."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "tables").mkdir()
    (folder / "tables" / "edges.csv").write_text(EDGES)
    (folder / "tables" / "nodes.csv").write_text(NODES)
    for words in (
        ["ingest", folder / "tables", folder / "store"],
        ["train", folder / "store", "--encoder", "sgc", "--out", folder / "run", *ONE],
    ):
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        assert not caught.value.code
    return folder


COMMANDS = {command.name: command.callback for command in app.registered_commands}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_option_and_says_what_it_did(name):
    command = typer.main.get_command(app).commands[name]
    assert "--json" in [option for each in command.params for option in each.opts]
    hints = typing.get_type_hints(inspect.unwrap(COMMANDS[name]))
    assert hints["return"] == Report, "CONTRIBUTING.md says how a command reports"


def test_train_and_predict(work, scr):
    trained = scr("train", work / "store", "--encoder", "sgc", "--out", work / "other", *ONE)
    assert trained["run"] == str(work / "other")
    assert trained["metrics"] == json.loads((work / "other" / "metrics.json").read_text())
    again = scr("train", work / "store", "--encoder", "sgc", "--out", work / "other", *ONE,
                "--resume")  # fmt: skip
    assert again["metrics"] == trained["metrics"]
    predicted = scr("predict", work / "run", "--out", work / "p.parquet")
    assert predicted["predictions"] == str(work / "p.parquet")


def test_stores_and_hops(work, scr, tmp_path):
    store = scr("ingest", work / "tables", tmp_path / "store")
    assert (store["nodes"], store["edges"], store["classes"]) == (6, 10, 2)
    assert store["split"] == {"train": 2, "valid": 2, "test": 2}
    assert scr("ingest", work / "tables", tmp_path / "no", "--plan")["plan"]["method"] == "memory"
    hops = scr("propagate", tmp_path / "store", "--hops", 2)
    assert (hops["count"], hops["written"]) == (3, True)
    assert scr("propagate", tmp_path / "store", "--hops", 2)["written"] is False
    assert "passes" in scr("propagate", tmp_path / "store", "--hops", 2, "--plan")["plan"]
    assert scr("verify", tmp_path / "store")["arrays"] > 3
    assert "model.safetensors" in scr("verify", work / "run")["files"]
    made = scr("synth", tmp_path / "made", "--nodes", 50, "--edges", 90, "--classes", 3)
    assert made["nodes"] == 50


def test_experiments(work, scr, tmp_path):
    few = ["--seeds", 1, *ONE]
    compared = scr("compare", work / "store", "--out", tmp_path / "c", "--encoders", "sgc",
                   "--regularizers", "none,scr", *few)  # fmt: skip
    assert [row["regularizer"] for row in compared["rows"]] == ["none", "scr"]
    swept = scr("sweep", work / "store", "--out", tmp_path / "s", "--encoder", "sgc", *few,
                "--settings", "weight", "--values", "weight=1", "--regularizers", "scr"
                )  # fmt: skip
    assert swept["result"] == str(tmp_path / "s" / "sweep.json")
    timed = scr("efficiency", work / "store", "--out", tmp_path / "e", "--encoder", "sgc",
                "--methods", "scr", "--reference", "scr", *few)  # fmt: skip
    assert len(timed["methods"]) == 1
    row = scr("reproduce", "hu-2020-base-mlp-products", "--graph", work / "store", "--runs", 1,
              "--out", tmp_path / "r", *ONE)  # fmt: skip
    assert row["published"]["test_accuracy"] == 61.06
    pages = scr("report", tmp_path / "c", work / "run")["pages"]
    assert pages == [str(tmp_path / "c" / "report.html"), str(work / "run" / "report.html")]


def test_what_there_is(scr):
    assert "gamlp" in [each["name"] for each in scr("encoders")["encoders"]]
    assert "hidden" in [each["name"] for each in scr("encoders", "sign")["settings"]]
    assert "scr-m" in [each["name"] for each in scr("regularizers")["regularizers"]]
    assert "weight" in [each["name"] for each in scr("regularizers", "scr")["settings"]]
    recipes = scr("recipes", "--data", "mag")["recipes"]
    assert {each["dataset"] for each in recipes} == {"ogbn-mag"}
    assert "[training]" in scr("recipes", recipes[0]["name"])["text"]


def test_smooth(work, scr):
    assert scr("smooth", work / "run", "--no-search")["test"].keys() == {"before", "after"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "nothing/here"], "`nothing/here` does not exist"),
        (["train", "digits"], "--out"),
        (["train", "digits", "--out", "x", "--sed", "1"], "--sed"),
        (["nonsense"], "nonsense"),
    ],
)
def test_an_error_is_an_object_too_and_exit_code_2(scr, words, said):
    error = scr(*words, code=2)
    assert error.keys() == {"error", "hint"}
    assert said in error["error"]


def test_the_hint_of_an_error_is_apart_and_in_words_of_the_command_line(work, scr):
    error = scr("train", work / "store", "--out", work / "run", code=2)
    assert "exists already" in error["error"]
    assert "--overwrite" in error["hint"]


def test_an_unexpected_error_is_an_object_with_exit_code_1(scr, monkeypatch):
    monkeypatch.setattr("scr.storage.read_manifest", lambda path: 1 / 0, raising=False)
    error = scr("verify", "somewhere", code=1)
    assert "ZeroDivisionError" in error["error"]
    assert "--debug" in error["hint"]

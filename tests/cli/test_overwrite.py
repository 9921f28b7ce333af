"""What is there is refused without `--overwrite`, and is not lost if the new does not succeed."""

import json

import pytest

from scr.cli import main

QUICK = ["--set", "training.epochs=2"]


@pytest.fixture
def scr(capsys):
    """Run a command in this process; returns its exit code and what it said."""

    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return caught.value.code or 0, printed.out + printed.err

    return run


@pytest.fixture
def store(scr, tmp_path):
    size = ["--nodes", 60, "--edges", 120, "--features", 4, "--classes", 3]
    assert scr("synth", tmp_path / "store", *size)[0] == 0
    return tmp_path / "store"


def content(folder):
    """Every file of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_run_is_replaced_only_when_asked_and_only_by_a_whole_one(scr, store, tmp_path):
    words = ["train", store, "--encoder", "sgc", "--out", tmp_path / "run"]
    assert scr(*words, *QUICK)[0] == 0
    before = content(tmp_path / "run")
    code, said = scr(*words, *QUICK)
    assert code == 2
    assert "--overwrite" in said
    assert "--resume" in said
    wrong = ["--set", 'propagation.label_paths=["nothing"]']  # noticed after the run has begun
    assert scr(*words, *QUICK, *wrong, "--overwrite")[0] == 2
    assert content(tmp_path / "run") == before
    assert scr(*words, "--set", "training.epochs=3", "--overwrite")[0] == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["epochs"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "store"]


def test_a_replacement_that_was_stopped_is_resumed_and_then_swapped(
    scr, store, tmp_path, monkeypatch
):
    words = ["train", store, "--encoder", "sgc", "--out", tmp_path / "run"]
    assert scr(*words, *QUICK)[0] == 0
    before = content(tmp_path / "run")

    def stop(*_, **__):
        raise KeyboardInterrupt

    longer = [*words, "--set", "training.epochs=3", "--overwrite"]
    with monkeypatch.context() as patch:
        patch.setattr("scr.NodeClassifier.write_into", stop)
        code, said = scr(*longer)
    assert code == 130
    assert "--resume" in said
    assert content(tmp_path / "run") == before
    assert scr(*longer, "--resume")[0] == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["epochs"] == 3


def test_predictions_are_replaced_only_when_asked(scr, store, tmp_path):
    assert scr("train", store, "--encoder", "sgc", "--out", tmp_path / "run", *QUICK)[0] == 0
    file = tmp_path / "p.parquet"
    file.write_text("mine")
    code, said = scr("predict", tmp_path / "run", "--out", file)
    assert code == 2
    assert "--overwrite" in said
    assert file.read_text() == "mine"
    assert scr("predict", tmp_path / "run", "--out", tmp_path / "store")[0] == 2
    assert scr("predict", tmp_path / "run", "--out", file, "--overwrite")[0] == 0
    assert file.read_bytes()[:4] == b"PAR1"


def test_a_result_of_another_graph_is_refused_and_runs_are_used_again(scr, store, tmp_path):
    out = tmp_path / "result"
    few = ["--encoders", "sgc", "--regularizers", "none", "--seeds", 1, "--out", out, *QUICK]
    assert scr("compare", store, *few)[0] == 0
    first = (out / "runs.jsonl").read_text()
    assert scr("compare", store, *few)[0] == 0
    assert (out / "runs.jsonl").read_text() == first
    code, said = scr("compare", "digits", *few)
    assert code == 2
    assert "another graph" in said
    assert "--overwrite" in said
    assert scr("compare", "digits", *few, "--overwrite")[0] == 0
    assert json.loads((out / "compare.json").read_text())["graph"]["name"] == "digits"
    assert len((out / "runs.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--encoder", "sgc", *QUICK],
        ["tune", "--time", "5s"],
        ["compare", "--encoders", "sgc", "--seeds", "1", *QUICK],
        ["sweep", "--encoder", "sgc", "--seeds", "1", *QUICK],
        ["efficiency", "--encoder", "sgc", "--seeds", "1", *QUICK],
    ],
)
def test_a_folder_of_something_else_is_never_replaced(scr, store, tmp_path, words):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    code, said = scr(words[0], store, *words[1:], "--out", tmp_path / "photos", "--overwrite")
    assert code == 2
    assert "replaces only what the same command wrote" in said
    assert content(tmp_path / "photos") == {"cat.jpg": b"meow"}


def test_a_run_directory_takes_no_result_of_an_experiment(scr, store, tmp_path):
    run = tmp_path / "run"
    assert scr("train", store, "--encoder", "sgc", "--out", run, *QUICK)[0] == 0
    before = content(run)
    assert scr("compare", store, "--encoders", "sgc", "--seeds", 1, "--out", run)[0] == 2
    assert content(run) == before


@pytest.mark.parametrize("option", [None, "--source", "--ogb"])
def test_synthetic_graphs_are_replaced_only_when_asked(scr, tmp_path, option):
    target = [tmp_path / "made"] if option is None else [option, tmp_path / "made"]
    size = ["--edges", 120, "--features", 4, "--classes", 3]
    assert scr("synth", *target, *size, "--nodes", 60)[0] == 0
    before = content(tmp_path / "made")
    code, said = scr("synth", *target, *size, "--nodes", 70)
    assert code == 2
    assert "--overwrite" in said
    assert content(tmp_path / "made") == before
    assert scr("synth", *target, *size, "--nodes", 70, "--overwrite")[0] == 0
    assert content(tmp_path / "made") != before


def test_hops_in_a_folder_are_replaced_only_when_asked(scr, store, tmp_path):
    words = ["propagate", store, "--hops", 1, "--out", tmp_path / "hops"]
    assert scr(*words)[0] == 0
    code, said = scr(*words)
    assert code == 2
    assert "--overwrite" in said
    assert scr(*words, "--overwrite")[0] == 0

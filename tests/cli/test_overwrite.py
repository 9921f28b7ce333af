"""What is there is refused without `--overwrite`, and is not lost if the new does not succeed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scr import runs, storage
from scr.cli import main
from scr.errors import StoreError

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


def put_photos(folder):
    """What a user may keep in any folder."""
    (folder / "notes.txt").write_text("mine")
    (folder / "photos").mkdir()
    for number in range(3):
        (folder / "photos" / f"{number}.jpg").write_text("meow")
    return content(folder)


@pytest.mark.parametrize("kind", ["store", "source", "ogb", "hops", "run", "compare"])
def test_what_scr_did_not_write_is_never_removed(scr, store, tmp_path, kind):
    out, size = tmp_path / "out", ["--nodes", 60, "--edges", 120, "--features", 4]
    words = {
        "store": ["synth", out, *size],
        "source": ["synth", "--source", out, *size],
        "ogb": ["synth", "--ogb", out, *size],
        "hops": ["propagate", store, "--hops", 1, "--out", out],
        "run": ["train", store, "--encoder", "sgc", "--out", out, *QUICK],
        "compare": [
            "compare", store, "--encoders", "sgc", "--regularizers", "none", "--seeds", 1,
            "--out", out, *QUICK,
        ],
    }[kind]  # fmt: skip
    assert scr(*words)[0] == 0
    before = put_photos(out)
    code, said = scr(*words, "--overwrite")
    said = " ".join(said.split())
    assert code == 2
    assert "`notes.txt`, `photos`" in said
    assert "move that elsewhere, or choose another folder" in said
    assert content(out) == before
    (out / "notes.txt").unlink()
    for number in range(3):
        (out / "photos" / f"{number}.jpg").unlink()
    (out / "photos").rmdir()
    assert scr(*words, "--overwrite")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


def test_hops_below_a_store_are_its_own_and_other_things_there_are_not(scr, store, tmp_path):
    size = ["--nodes", 60, "--edges", 120, "--features", 4, "--classes", 3]
    assert scr("propagate", store, "--hops", 1)[0] == 0
    (hops,) = (store / "hops").iterdir()
    for place in (hops / "mine.npy", store / "hops" / "notes.txt"):
        place.write_text("mine")
        code, said = scr("synth", store, *size, "--overwrite")
        assert code == 2
        assert str(place.relative_to(store)) in " ".join(said.split())
        assert place.read_text() == "mine"
        place.unlink()
    (store / ".DS_Store").touch()
    assert scr("synth", store, *size, "--overwrite")[0] == 0
    assert not (store / "hops").exists()


def test_a_run_with_another_run_in_it_is_not_replaced(scr, store, tmp_path):
    words = ["train", store, "--encoder", "sgc", *QUICK, "--out"]
    assert scr(*words, tmp_path / "run")[0] == 0
    assert scr(*words, tmp_path / "run" / "second")[0] == 0
    before = content(tmp_path / "run")
    code, said = scr(*words, tmp_path / "run", "--overwrite")
    assert code == 2
    assert "`second`" in said
    assert content(tmp_path / "run") == before


@pytest.fixture
def run(scr, store, tmp_path):
    words = ["train", store, "--encoder", "sgc", "--out", tmp_path / "run", *QUICK]
    assert scr(*words)[0] == 0
    return tmp_path / "run"


def test_all_that_commands_write_into_a_run_is_known(scr, run, store, tmp_path):
    assert scr("smooth", run)[0] == 0
    few = ["--labels", 2, "--seeds", 1, "--encoder", "sgc", *QUICK]
    assert scr("learning-curve", run, *few)[0] == 0
    runs.check_replaced_run(run)
    (run / "smooth" / "mine.txt").touch()
    with pytest.raises(StoreError, match=r"`smooth/mine\.txt`"):
        runs.check_replaced_run(run)
    tuned = tmp_path / "tuned"
    assert scr("tune", store, "--out", tuned, "--time", "1s", "--jobs", 1, *QUICK)[0] == 0
    runs.check_replaced_run(tuned)


def test_all_that_experiments_write_is_known(scr, store, tmp_path):
    for words in (
        ["sweep", store, "--encoder", "sgc", "--values", "consistency.weight=1"],
        ["efficiency", store, "--encoder", "sgc", "--methods", "none,scr", "--reference", "scr"],
    ):
        out = tmp_path / words[0]
        code, said = scr(*words, "--seeds", 1, "--out", out, *QUICK)
        assert code == 0, said
        runs.check_replaced_results(out)
        (out / "mine.png").touch()
        with pytest.raises(StoreError, match=r"`mine\.png`"):
            runs.check_replaced_results(out)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes")
@pytest.mark.parametrize(
    ("words", "suffix"),
    [(["predict"], ".json"), (["suggest"], ".csv"), (["export"], ".onnx")],
)
def test_one_file_is_written_only_where_nothing_is_lost(
    scr, run, tmp_path, words, suffix, monkeypatch
):
    def load(*_, **__):
        pytest.fail("there was work before the refusal")

    monkeypatch.setattr("scr.NodeClassifier.load", load)
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    (tmp_path / f"null{suffix}").symlink_to("/dev/null")
    (tmp_path / f"nothing{suffix}").symlink_to(tmp_path / "missing")
    names = sorted(path.name for path in tmp_path.iterdir())
    for name in ("pipe", "folder", "null", "nothing"):
        code, said = scr(words[0], run, "--out", tmp_path / f"{name}{suffix}", "--overwrite")
        assert code == 2
        assert "expected a file to write" in " ".join(said.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    (tmp_path / f"mine{suffix}").write_text("mine")
    code, said = scr(words[0], run, "--out", tmp_path / f"mine{suffix}")
    assert code == 2
    assert "--overwrite" in said
    assert (tmp_path / f"mine{suffix}").read_text() == "mine"


@pytest.mark.parametrize("name", ["run.json", "metrics.json", "predictions.parquet", "fit.json"])
def test_predictions_never_replace_a_file_of_a_run(scr, run, name):
    before = content(run)
    code, said = scr("predict", run, "--out", run / name, "--overwrite")
    assert code == 2
    assert "one of the files of" in said
    assert content(run) == before
    assert scr("predict", run, "--out", run / "other.csv")[0] == 0
    assert (run / "other.csv").is_file()


def test_predictions_never_replace_the_manifest_of_a_store(scr, run, store):
    before = content(store)
    assert scr("predict", run, "--out", store / "manifest.json", "--overwrite")[0] == 2
    assert content(store) == before


def test_fit_replaces_predictions_only_when_asked(scr, tmp_path):
    (tmp_path / "p.csv").write_text("mine")
    words = ["fit", "digits", "--predictions", tmp_path / "p.csv", "--out", tmp_path / "run"]
    code, said = scr(*words)
    assert code == 2
    assert "--overwrite" in said
    assert (tmp_path / "p.csv").read_text() == "mine"
    assert not (tmp_path / "run").exists()


def test_a_second_smooth_says_that_there_is_a_first(scr, run):
    with storage.atomic_folder(run / "smooth") as folder:
        (folder / "mine").touch()
        code, said = scr("smooth", run)
        assert code == 2
        assert "Another process is making" in said
        assert (folder / "mine").exists()
    assert [path.name for path in (run / "smooth").iterdir()] == ["mine"]


@pytest.mark.stress
def test_two_smooths_at_once_leave_one_whole_result(run):
    words = [sys.executable, "-m", "scr.cli", "smooth", str(run)]
    both = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes == [0, 2], said
    assert sorted(path.name for path in (run / "smooth").iterdir()) == [
        "predictions.parquet", "smooth.json",
    ]  # fmt: skip
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_full_disk_names_the_file_of_a_run_that_could_not_be_written(
    scr, run, tmp_path, monkeypatch
):
    before, fsync = content(run), os.fsync

    def full_for(name):
        def full(descriptor):
            if name in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
                raise OSError(28, "No space left on device")
            fsync(descriptor)

        return full

    for name, words in (
        ("report.html", ["report", run]),
        ("p.csv", ["predict", run, "--out", tmp_path / "p.csv"]),
    ):
        monkeypatch.setattr(os, "fsync", full_for(f".{name}.partial"))
        code, said = scr(*words)
        said = " ".join(said.split())
        assert code == 2
        assert "disk is too full" in said
        assert name in said
        assert "nothing was written" in said
    assert content(run) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "store"]


def test_a_file_that_may_not_be_read_is_not_called_truncated(store, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    manifest = storage.read_manifest(store)
    monkeypatch.setattr("scr.storage._manifest.npy_region", refuse)
    with pytest.raises(StoreError, match=r"labels\.npy` cannot be read: Permission denied"):
        storage.open_array(manifest, "labels")
    monkeypatch.setattr("scr.storage._manifest.read_plain", refuse)
    with pytest.raises(StoreError, match=r"manifest\.json` cannot be read: Permission denied"):
        storage.read_manifest(store)

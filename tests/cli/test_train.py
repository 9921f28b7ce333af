"""`train`, `predict`, `report` and `compare` from the command line, good input and bad."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from scr.cli import main
from scr.cli.commands import train as train_command

QUICK = ["--set", "training.epochs=6", "--set", "training.evaluate_every=2"]
SHORT = ["--set", "training.epochs=1"]


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of `SHORT`; tests that change it take a copy."""
    run = tmp_path_factory.mktemp("train") / "run"
    assert scr("train", "digits", "--out", run, *SHORT) == 0
    return run


def test_train_then_predict_then_report(tmp_path, capsys):
    run, file = tmp_path / "run", tmp_path / "predictions.parquet"
    assert scr("train", "digits", "--out", run, "--encoder", "ssgc", *QUICK) == 0
    assert "test accuracy" in capsys.readouterr().out
    metrics = json.loads((run / "metrics.json").read_text())
    assert 0 < metrics["test_accuracy"] <= 1
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert not (run / "checkpoint.safetensors").exists()
    assert scr("predict", run, "--out", file, "--probabilities", "top-2") == 0
    table = pq.read_table(file)
    first = table.slice(0, 1).to_pylist()[0]
    assert first["class_1"] == first["prediction"]
    assert first["probability_1"] >= first["probability_2"]
    assert table["prediction"].equals(pq.read_table(run / "predictions.parquet")["prediction"])
    assert scr("report", run) == 0


def test_the_metric_heads_the_line_and_the_page(tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["--encoder", "ssgc", "--metric", "macro-f1", *QUICK]
    assert scr("train", "digits", "--out", run, *arguments) == 0
    metrics = json.loads((run / "metrics.json").read_text())
    value, accuracy = metrics["test"]["macro_f1"], metrics["test_accuracy"]
    assert f"test macro F1 {value:.1%} (accuracy {accuracy:.1%})" in capsys.readouterr().out
    page = (run / "report.html").read_text()
    names = re.findall(r'<span class="name">([^<]+)</span><span class="value">([^<]+)<', page)
    assert names[0] == ("Test macro F1", f"{100 * value:.1f}")
    assert names[2] == ("Test accuracy", f"{100 * accuracy:.1f}")
    assert [name for name, _ in names].count("Macro F1") == 0
    assert "The metric that counts on validation nodes per epoch" in page
    assert json.loads((run / "run.json").read_text())["recipe"]["training"]["metric"] == "macro-f1"


def test_a_comparison_goes_by_the_metric(tmp_path, capsys):
    arguments = ["--encoders", "ssgc", "--regularizers", "none,scr", "--seeds", 2, *SHORT]
    assert scr("compare", "digits", "--out", tmp_path, "--metric", "log-loss", *arguments) == 0
    assert "nats of test log-loss against its base" in capsys.readouterr().out
    rows = json.loads((tmp_path / "compare.json").read_text())["rows"]
    assert rows[1]["measure"] == "test_metric"
    assert "Test log-loss of every run" in (tmp_path / "report.html").read_text()


def test_an_unknown_metric_is_refused_and_leaves_nothing(tmp_path, capsys):
    assert scr("train", "digits", "--out", tmp_path / "run", "--metric", "f1") == 2
    assert "training.metric" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_left_alone(finished, tmp_path, capsys):
    run = shutil.copytree(finished, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    assert scr("train", "digits", "--out", run, *SHORT) == 2
    assert "exists already" in " ".join(capsys.readouterr().err.split())
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert scr("train", "digits", "--out", run, *SHORT, "--resume") == 0
    assert "finished already" in capsys.readouterr().out


def test_resuming_with_other_settings_is_refused(finished, tmp_path, capsys):
    run = shutil.copytree(finished, tmp_path / "run")
    code = scr("train", "digits", "--out", run, *SHORT, "--seed", 4, "--resume")
    assert code == 2
    assert "another seed: seed was 0, is 4;" in " ".join(capsys.readouterr().err.split())
    assert scr("train", "digits", "--out", run, "--set", "training.epochs=9", "--resume") == 2
    assert "another recipe: training.epochs was 1, is 9;" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "compare"])
def test_set_wins_over_every_table_of_the_recipe_file(tmp_path, command):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[training]\nepochs = 3\n[for.ssgc.training]\nepochs = 4\n")
    names = {
        "train": ["--encoder", "ssgc", "--regularizer", "none"],
        "compare": ["--encoders", "ssgc", "--regularizers", "none", "--seeds", 1],
    }[command]
    arguments = [command, "digits", *names, "--recipe", recipe]
    assert scr(*arguments, "--out", tmp_path / "file") == 0
    assert scr(*arguments, "--out", tmp_path / "set", "--set", "training.epochs=2") == 0
    assert [epochs_of(tmp_path / name) for name in ("file", "set")] == [4, 2]


def epochs_of(folder):
    """How many epochs the only run below a folder took."""
    if (folder / "metrics.json").exists():
        return json.loads((folder / "metrics.json").read_text())["epochs"]
    return json.loads((folder / "compare.json").read_text())["runs"][0]["epochs"]


def same_weights(one, other):
    states = [load_file(run / "model.safetensors") for run in (one, other)]
    return all(torch.equal(states[0][name], value) for name, value in states[1].items())


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_weights(tmp_path, monkeypatch):
    watched = train_command.watched

    @contextmanager
    def interrupted(*arguments):
        with watched(*arguments) as on_epoch:

            def interrupt(record):
                on_epoch(record)
                if record.epoch == 3:
                    os.kill(os.getpid(), signal.SIGINT)

            yield interrupt

    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    with monkeypatch.context() as patch:
        patch.setattr(train_command, "watched", interrupted)
        assert scr("train", "digits", "--out", stopped, *QUICK) == 130
    assert (stopped / "checkpoint.safetensors").exists()
    assert not (stopped / "metrics.json").exists()
    assert scr("train", "digits", "--out", stopped, *QUICK, "--resume") == 0
    assert scr("train", "digits", "--out", whole, *QUICK) == 0
    assert same_weights(stopped, whole)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(10))
def test_ctrl_c_from_another_process_at_any_moment_does_the_same(tmp_path, seed):
    settings = ["--set", "training.epochs=300", "--set", "training.patience=0"]
    command = [sys.executable, "-m", "scr.cli", "train", "digits", *settings, "--out"]
    # Both runs in processes of their own, with equal threads, so that sums round alike.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, tmp_path / "stopped"], env=environment)
    while not (tmp_path / "stopped" / "run.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    wait = np.random.default_rng(seed).uniform(0, 5)
    print(f"interrupted {wait:.3f} s after its start")
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=120)
    # 1: before the first epoch, where it stops at once; 0: it was faster than the signal.
    assert code in (130, 1, 0)
    if code == 130:
        assert (tmp_path / "stopped" / "checkpoint.safetensors").exists()
        assert not (tmp_path / "stopped" / "metrics.json").exists()
    resumed = [*command, tmp_path / "stopped", "--resume"]
    subprocess.run(resumed, env=environment, check=True)
    subprocess.run([*command, tmp_path / "whole"], env=environment, check=True)
    assert same_weights(tmp_path / "stopped", tmp_path / "whole")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--encoder", "gnn"], "gnn"),
        (["--regularizer", "l2"], "l2"),
        (["--set", "training.epoch=3"], "did you mean `epochs`?"),
        (["--set", "training=3"], "section.key=value"),
        (["--set", "trainning.epochs=3"], "trainning"),
        (["--set", "training.epochs=0"], "training.epochs"),
        (["--recipe", "missing.toml"], "missing.toml"),
        (["--preset", "tiny"], "few-labels"),
        (["--splits", "missing.npz"], "missing.npz"),
        (["--probabilities", "some"], "top-K"),
        (["--device", "foo"], "a device that torch can use here"),
        (["--device", "cuda:99"], "a device that torch can use here"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_options_are_one_sentence_and_exit_code_2(tmp_path, capsys, arguments, said):
    assert scr("train", "digits", "--out", tmp_path / "run", *arguments) == 2
    printed = capsys.readouterr()
    assert said in " ".join(printed.err.split())
    assert "Traceback" not in printed.err
    assert not (tmp_path / "run").exists()


def test_input_that_is_refused_after_the_start_leaves_no_run_directory(tmp_path, capsys):
    run = tmp_path / "run"
    paths = 'propagation.label_paths=["nothing"]'
    assert scr("train", "digits", "--out", run, *QUICK, "--set", paths) == 2
    assert "There is no relation `nothing`" in " ".join(capsys.readouterr().err.split())
    assert not run.exists()
    assert scr("train", "digits", "--out", run, *QUICK) == 0


def test_a_graph_without_a_split_is_told_the_option_that_makes_one(tmp_path, capsys):
    generator = np.random.default_rng(0)
    np.savez(
        tmp_path / "toy.npz",
        edge_index=generator.integers(0, 60, (2, 200)),
        y=np.repeat(np.arange(3), 20),
        x=generator.normal(size=(60, 4)).astype(np.float32),
    )
    arguments = ["train", tmp_path / "toy.npz", "--out", tmp_path / "run", *QUICK]
    assert scr(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "has no training nodes" in " ".join(printed.err.split())
    assert "--splits per-class:20,30" in printed.err
    assert not (tmp_path / "run").exists()
    assert scr(*arguments, "--splits", "per-class:5,5") == 0


def test_a_missing_graph_is_named(tmp_path, capsys):
    assert scr("train", tmp_path / "nothing", "--out", tmp_path / "run") == 2
    assert "nothing" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_predict_refuses_a_folder_that_is_no_run(tmp_path, capsys):
    assert scr("predict", tmp_path, "--out", tmp_path / "file.parquet") == 2
    assert "not a run directory" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "file.parquet").exists()


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([0, 5000], "There is no node 5000"),
        ([-1], "There is no node -1"),
        ([0.0, 1.0], "float64"),
        ([[0, 1]], "shape (1, 2)"),
        ([True], "1,797, one per node"),
    ],
)
def test_predict_refuses_nodes_that_are_not_there(finished, tmp_path, capsys, nodes, said):
    np.save(tmp_path / "nodes.npy", np.array(nodes))
    file = tmp_path / "file.parquet"
    assert scr("predict", finished, "--out", file, "--nodes", tmp_path / "nodes.npy") == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not file.exists()


def test_predict_takes_numbers_of_nodes_in_any_order(finished, tmp_path):
    np.save(tmp_path / "nodes.npy", np.array([7, 3], np.uint16))
    file = tmp_path / "file.parquet"
    assert scr("predict", finished, "--out", file, "--nodes", tmp_path / "nodes.npy") == 0
    assert pq.read_table(file)["id"].to_pylist() == [7, 3]


def test_predict_refuses_a_device_that_is_not_there(finished, tmp_path, capsys):
    assert scr("predict", finished, "--out", tmp_path / "p.csv", "--device", "cuda:99") == 2
    assert "a device that torch can use" in " ".join(capsys.readouterr().err.split())


def test_resuming_a_run_that_was_killed_at_its_very_end_brings_its_page(finished, tmp_path, capsys):
    run = shutil.copytree(finished, tmp_path / "run")
    (run / "report.html").unlink()
    for name in ("checkpoint.safetensors", "checkpoint-1-handover.safetensors"):
        (run / name).touch()
    assert scr("train", "digits", "--out", run, *SHORT, "--resume") == 0
    assert "finished already" in " ".join(capsys.readouterr().out.split())
    assert {path.name for path in run.iterdir()} == {path.name for path in finished.iterdir()}


def test_predict_refuses_a_truncated_model(finished, tmp_path, capsys):
    run = shutil.copytree(finished, tmp_path / "run")
    model = run / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-100])
    assert scr("predict", run, "--out", tmp_path / "file.parquet") == 2
    assert "has changed since it was written" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "file.parquet").exists()


def test_compare_pairs_seeds_and_goes_on_where_it_was(tmp_path, capsys):
    arguments = ["compare", "digits", "--encoders", "ssgc", "--out", tmp_path / "out", *QUICK]
    arguments += ["--regularizers", "none,scr", "--splits", "per-class:2,10"]
    assert scr(*arguments, "--seeds", 2) == 0
    first = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert scr(*arguments, "--seeds", 3) == 0
    second = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert len(first["runs"]) == 4
    assert len(second["runs"]) == 6
    kept = [run for run in second["runs"] if run["seed"] < 2]
    assert sorted(kept, key=str) == sorted(first["runs"], key=str)  # times too: not run again
    by_name = {row["regularizer"]: row for row in second["rows"]}
    scores = {
        name: np.array([r["test_accuracy"] for r in second["runs"] if r["regularizer"] == name])
        for name in ("none", "scr")
    }
    expected = (scores["scr"] - scores["none"]).mean()
    assert by_name["scr"]["difference"] == pytest.approx(expected)
    assert "report.html" in capsys.readouterr().out


def test_compare_in_two_processes_gives_the_same_runs(tmp_path):
    arguments = ["compare", "digits", "--encoders", "ssgc", "--regularizers", "none,scr", *QUICK]
    assert scr(*arguments, "--seeds", 2, "--jobs", 2, "--out", tmp_path / "two") == 0
    result = json.loads((tmp_path / "two" / "compare.json").read_text())
    assert [(run["regularizer"], run["seed"]) for run in result["runs"]] == [
        ("none", 0), ("scr", 0), ("none", 1), ("scr", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_in_a_comparison_says_that_finished_runs_are_kept(tmp_path, jobs):
    out = tmp_path / "a folder"
    words = ["compare", "digits", "--encoders", "sgc", "--regularizers", "none", "--seeds", "40",
             "--jobs", str(jobs), "--set", "training.epochs=20", "--out", str(out)]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "scr.cli", *words], text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # A shell that runs the tests in the background has them ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not (out / "runs.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: also to the workers
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    stopped = f"Stopped; finished runs are kept in {out}. Continue with the same command: scr "
    (line,) = [line for line in printed.splitlines() if line.startswith(stopped)]
    assert shlex.split(line.removeprefix(stopped)) == words
    assert 1 <= len((out / "runs.jsonl").read_text().splitlines()) < 40
    assert not (out / "compare.json").exists()


def test_compare_refuses_an_unknown_encoder_before_any_run(tmp_path, capsys):
    code = scr("compare", "digits", "--encoders", "ssgc,foo", "--out", tmp_path / "out")
    assert code == 2
    assert "foo" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--encoders", "--regularizers"])
def test_compare_refuses_an_empty_list(tmp_path, capsys, option):
    assert scr("compare", "digits", option, ",", "--out", tmp_path / "out") == 2
    assert f"`{option}` is ','" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_compare_lays_no_preset_below_a_published_recipe(tmp_path):
    published = "frasca-2020-base-sign-products"
    small = ["--set", "training.epochs=1", "--set", "encoder.hidden=8"]
    small += ["--encoders", "sign", "--regularizers", "none", "--seeds", 1, "--recipe", published]
    over = ["--preset", "few-labels"]
    assert scr("compare", "digits", "--out", tmp_path / "alone", *small) == 0
    assert scr("compare", "digits", "--out", tmp_path / "over", *small, *over) == 0
    found = [
        json.loads((tmp_path / name / "compare.json").read_text())["runs"][0]["preset"]
        for name in ("alone", "over")
    ]
    assert found == ["none", "few-labels"]


def test_a_worker_that_fails_says_why(tmp_path, capsys):
    # Validation nodes are missing, which is noticed when a run begins.
    settings = ["--encoders", "ssgc", "--regularizers", "none", "--seeds", 1, "--jobs", 2]
    code = scr("compare", "digits", *settings, "--splits", "per-class:2,0", "--out", tmp_path / "o")
    assert code == 2
    assert "training.select" in capsys.readouterr().err


def test_a_sample_for_refreshes_is_a_setting_of_the_run(tmp_path, capsys):
    run = tmp_path / "run"
    options = ["--regularizer", "scr", "--refresh-sample", "50", *QUICK]
    assert scr("train", "digits", "--out", run, *options) == 0
    recorded = json.loads((run / "run.json").read_text())
    assert recorded["recipe"]["consistency"]["refresh_sample"] == 50
    assert recorded["rows_kept"] == "all"
    assert scr("train", "digits", "--out", tmp_path / "no", "--refresh-sample", "0") == 2
    assert not (tmp_path / "no").exists()


def test_compare_says_what_it_left_out_on_the_console_and_on_the_page(tmp_path, capsys):
    code = scr("compare", "digits", "--encoders", "ssgc,sign", "--regularizers", "none,grand",
               "--seeds", 1, "--out", tmp_path / "out", *QUICK)  # fmt: skip
    assert code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Note: Left out `grand` with sign: it propagates anew" in printed
    assert "Left out `grand` with sign: it" in (tmp_path / "out" / "report.html").read_text()


def test_compare_announces_no_explanation_where_there_is_none(tmp_path, capsys):
    arguments = ["compare", "digits", "--regularizers", "none", "--seeds", 1, *QUICK]
    assert scr(*arguments, "--encoders", "gcn", "--out", tmp_path / "gcn") == 0
    assert "What carries" not in capsys.readouterr().out
    assert scr(*arguments, "--encoders", "sign", "--out", tmp_path / "sign") == 0
    assert "What carries sign without a regularizer" in " ".join(capsys.readouterr().out.split())


def test_compare_takes_every_regularizer_in_one_command(tmp_path):
    names = [
        "none",
        "scr",
        "pi",
        "r-drop",
        "entropy",
        "fixmatch",
        "freematch",
        "softmatch",
        "grand",
    ]
    code = scr("compare", "digits", "--encoders", "ssgc", "--regularizers", ",".join(names),
               "--seeds", 1, "--out", tmp_path / "out", *SHORT)  # fmt: skip
    assert code == 0
    result = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert [row["regularizer"] for row in result["rows"]] == names
    assert len({run["key"] for run in result["runs"]}) == len(names)


def test_a_regularizer_that_had_no_part_is_one_warning_and_in_the_metrics(tmp_path, capsys):
    run = tmp_path / "run"
    unsure = ["--set", "consistency.threshold=1.0", "--set", "consistency.warmup=2"]
    assert scr("train", "digits", "--out", run, *QUICK, *unsure) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("warning:") == 1
    assert "scr had no part in this result" in said.err
    assert "never acted" in said.out
    term = json.loads((run / "metrics.json").read_text())["consistency"]
    assert term["acted"] is False
    assert (term["epochs"], term["acting_epochs"]) == (4, 0)
    assert "had no part in this result" in (run / "report.html").read_text()


def test_compare_marks_rows_whose_regularizer_had_no_part(tmp_path, capsys):
    unsure = ["--set", "consistency.threshold=1.0", "--set", "consistency.warmup=2"]
    asked = ["--encoders", "ssgc", "--regularizers", "none,scr", "--seeds", "1"]
    assert scr("compare", "digits", *asked, "--out", tmp_path / "out", *QUICK, *unsure) == 0
    printed = capsys.readouterr().out
    assert "ssgc scr †" in printed
    assert "ssgc scr in 1 of 1 runs" in printed
    rows = json.loads((tmp_path / "out" / "compare.json").read_text())["rows"]
    assert [row["inactive"] for row in rows] == [0, 1]
    assert ">scr †<" in (tmp_path / "out" / "report.html").read_text()

"""`scr smooth` on a finished run: what it writes, and what it refuses."""

import dataclasses
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from scr.cli import main
from scr.sources._digits import digits

QUICK = ["--set", "postprocess.correct_hops=5", "--set", "postprocess.smooth_hops=5"]


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def words(text):
    return " ".join(text.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("smooth") / "run"
    assert scr("train", "digits", "--out", run, "--set", "training.epochs=2") == 0
    return run


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def accuracy(table, split):
    rows = [row for row in table.to_pylist() if row["split"] == split]
    return np.mean([row["prediction"] == row["label"] for row in rows])


def test_smooth_writes_predictions_and_how_they_came_about(run, capsys):
    before = files(run)
    assert scr("smooth", run, *QUICK, "--probabilities", "top-2") == 0
    printed = words(capsys.readouterr().out)
    record = json.loads((run / "smooth" / "smooth.json").read_text())
    table = pq.read_table(run / "smooth" / "predictions.parquet")
    plain = pq.read_table(run / "predictions.parquet")
    assert table.column_names[: len(plain.column_names)] == plain.column_names
    assert table["id"].equals(plain["id"])
    for split in ("valid", "test"):
        assert record[split]["before"] == pytest.approx(accuracy(plain, split))
        assert record[split]["after"] == pytest.approx(accuracy(table, split))
        assert f"{record[split]['before']:.2%} {record[split]['after']:.2%}" in printed
    assert record["valid"]["after"] == max(trial["valid_accuracy"] for trial in record["trials"])
    assert record["settings"]["smooth_hops"] == 5
    assert str(run / "smooth") in printed
    assert {path: content for path, content in files(run).items() if path in before} == before
    assert sorted(path.name for path in run.iterdir() if path.name.startswith(".")) == []


def test_an_earlier_result_is_left_alone_unless_told_to_replace_it(run, capsys):
    assert scr("smooth", run, *QUICK, "--no-search") == 0
    before = files(run)
    (run / ".smooth.partial").mkdir()  # as after a kill when the result had its name
    (run / ".smooth.partial" / "lock").touch()
    assert scr("smooth", run, *QUICK) == 2
    assert "exists already" in words(capsys.readouterr().err)
    assert not (run / ".smooth.partial").exists()
    assert files(run) == before
    assert scr("smooth", run, *QUICK, "--labels", "train+valid", "--overwrite") == 0
    assert "held-back half" in words(capsys.readouterr().out)
    record = json.loads((run / "smooth" / "smooth.json").read_text())
    assert record["settings"]["labels"] == "train+valid"
    metrics = json.loads((run / "run.json").read_text())["graph"]
    assert record["valid"]["nodes"] == (metrics["valid"] + 1) // 2


def test_fixed_settings_are_used_as_they_are(run, capsys):
    given = ["--set", "postprocess.steps=correct", "--set", "postprocess.scale=2"]
    assert scr("smooth", run, *QUICK, "--no-search", *given) == 0
    assert "correct (sym, alpha 0.8, scale 2.0, 5 hops)" in words(capsys.readouterr().out)
    record = json.loads((run / "smooth" / "smooth.json").read_text())
    assert record["trials"] == []
    assert record["chosen"] == {
        "steps": "correct", "correct_hops": 5, "correct_alpha": 0.8, "correct_norm": "sym",
        "scale": 2.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--labels", "test"], "postprocess.labels"),
        (["--set", "postprocess.hops=3"], "postprocess.hops"),
        (["--set", "training.epochs=3"], "postprocess.key=value"),
        (["--set", "postprocess.scale=2"], "--no-search"),
        (["--set", "postprocess.method=none"], "correct-and-smooth"),
        (["--no-search", "--set", "postprocess.smooth_alpha=3"], "postprocess.smooth_alpha"),
        (["--probabilities", "some"], "top-K"),
        (["--device", "cuda:99"], "a device that torch can use here"),
    ],
)
def test_bad_options_are_one_sentence_and_write_nothing(run, capsys, arguments, said):
    before = files(run)
    assert scr("smooth", run, *arguments) == 2
    printed = capsys.readouterr().err
    assert said in words(printed)
    assert "Traceback" not in printed
    assert files(run) == before


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert scr("smooth", tmp_path) == 2
    assert "not a run directory" in words(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def edited(path, **changes):
    """Change a record of a run without checksums."""
    content = json.loads(path.read_text())
    (path.parent / "checksums.json").unlink(missing_ok=True)
    path.write_text(json.dumps({**content, **changes}))
    return content


def test_an_unfinished_run_and_another_graph_are_refused_and_write_nothing(run, capsys):
    record = json.loads((run / "run.json").read_text())
    edited(run / "run.json", graph={**record["graph"], "fingerprint": "of another graph"})
    assert scr("smooth", run) == 2
    assert "not the graph that the run was trained on" in words(capsys.readouterr().err)
    edited(run / "run.json", graph={**record["graph"], "source": None})
    assert scr("smooth", run) == 2
    assert "made in memory" in words(capsys.readouterr().err)
    (run / "metrics.json").unlink()
    assert scr("smooth", run) == 2
    assert "not finished" in words(capsys.readouterr().err)
    assert not [path for path in run.iterdir() if "smooth" in path.name]


def test_the_runs_own_recipe_gives_the_defaults_and_options_win(run):
    record = json.loads((run / "run.json").read_text())
    own = {"method": "correct-and-smooth", "search": False, "steps": "smooth", "smooth_hops": 7}
    edited(run / "run.json", recipe={**record["recipe"], "postprocess": own})
    assert scr("smooth", run, "--set", "postprocess.smooth_norm=row") == 0
    chosen = json.loads((run / "smooth" / "smooth.json").read_text())["chosen"]
    expected = {"steps": "smooth", "smooth_hops": 7, "smooth_alpha": 0.8, "smooth_norm": "row"}
    assert chosen == expected


def test_a_run_on_kept_rows_is_smoothed_for_every_node(tmp_path):
    graph = digits(seed=0)
    graph = dataclasses.replace(graph, test=graph.test[::2])
    graph.save(tmp_path / "store")
    hops = ["--hops", 1, "--norm", "row", "--scale", "none"]
    assert scr("propagate", tmp_path / "store", "--rows", "labeled", *hops) == 0
    settings = ["training.epochs=2", "propagation.hops=1", "propagation.norm=row",
                "encoder.hidden=8", "data.scale=none"]  # fmt: skip
    asked = [word for setting in settings for word in ("--set", setting)]
    run = tmp_path / "run"
    train = ("train", tmp_path / "store", "--encoder", "sign", "--preset", "none", "--out", run)
    assert scr(*train, *asked) == 0
    kept = pq.read_table(run / "predictions.parquet")
    assert len(kept) < graph.num_nodes
    assert scr("smooth", run, *QUICK) == 0
    assert len(pq.read_table(run / "smooth" / "predictions.parquet")) == graph.num_nodes

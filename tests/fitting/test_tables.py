"""From two tables with all their oddities to predictions, in one command or one call."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.csv
import pytest
from tests.fitting.catalogue import CLASSES, write_catalogue

import scr
from scr.cli import main
from scr.errors import SCRError, SourceError

QUICK = ("--set", "training.epochs=30", "--set", "training.select_after=0")
RECIPE = {"training": {"epochs": 4, "evaluate_every": 2, "select_after": 0.0}}


@pytest.fixture(autouse=True)
def _one_process(monkeypatch):
    monkeypatch.setattr("scr.engines._local._cores", lambda: 1)


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_catalogue(tmp_path)


def command(*arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def read_predictions(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_one_command_predicts_every_node(catalogue, tmp_path, capsys):
    classes, known = catalogue
    code = command("fit", "nodes.csv", "edges.csv", "--label", "category", "--out", "run", *QUICK)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    rows = read_predictions(tmp_path / "run" / "predictions.csv")
    assert {row["id"] for row in rows} == set(classes)
    assert {row["id"]: row["label"] for row in rows if row["label"]} == known
    assert {row["prediction"] for row in rows} == set(CLASSES)
    unknown = [row for row in rows if not row["label"]]
    assert np.mean([row["prediction"] == classes[row["id"]] for row in unknown]) > 0.9
    out = " ".join(shown.out.split())
    for word in ("`sku`", "1 edge", "internal_id: left out", "points on held-out labels",
                 f"of {len(known):,} are right (95% interval", "the most frequent class has",
                 "run/predictions.csv (300 rows)", "run/report.html"):  # fmt: skip
        assert word in out
    folder = tmp_path / "run"
    for name in ("report.html", "preparation.json", "preparation.npz", "run.json", "graph"):
        assert (folder / name).exists()
    # The run is whole without its tables, and wherever it is moved to.
    (tmp_path / "nodes.csv").unlink()
    shutil.move(folder, tmp_path / "moved")
    assert command("predict", "moved", "--out", "again.csv", "--probabilities", "none") == 0
    assert read_predictions(tmp_path / "again.csv") == rows


def test_tables_of_any_library_give_the_same_bits_as_files(catalogue, tmp_path):
    read = {"pandas": pd.read_csv, "polars": pl.read_csv, "arrow": pyarrow.csv.read_csv}
    expected = scr.fit("nodes.csv", "edges.csv", label="category", recipe=RECIPE).predict_proba()
    for name, reader in read.items():
        tables = [reader(tmp_path / f"{table}.csv") for table in ("nodes", "edges")]
        found = scr.fit(*tables, label="category", recipe=RECIPE).predict_proba()
        np.testing.assert_array_equal(found, expected, err_msg=name)
    folder = scr.fit(tmp_path, label="category", recipe=RECIPE, out=tmp_path / "run")
    np.testing.assert_array_equal(folder.predict_proba(), expected)


def test_a_split_column_is_respected_and_its_test_labels_choose_nothing(tmp_path):
    write_catalogue(tmp_path, known=1.1)
    table = pd.read_csv(tmp_path / "nodes.csv")
    table["part"] = np.where(np.arange(300) % 5 == 0, "test", np.where(
        np.arange(300) % 5 == 1, "valid", "train"))  # fmt: skip
    settings = {"label": "category", "split_column": "part", "recipe": RECIPE}
    one = scr.fit(table, tmp_path / "edges.csv", out=tmp_path / "run", **settings)
    split = json.loads((tmp_path / "run" / "fit.json").read_text())["split"]
    assert split == {"kind": "own", "train": 180, "valid": 60, "test": 60}
    wrong = table.copy()
    is_test = wrong["part"] == "test"
    wrong.loc[is_test, "category"] = np.roll(wrong.loc[is_test, "category"], 1)
    other = scr.fit(wrong, tmp_path / "edges.csv", **settings)
    np.testing.assert_array_equal(one.predict_proba(), other.predict_proba())


@pytest.mark.parametrize("name", ["p.tsv", "p.parquet", "p.jsonl"])
def test_predictions_go_where_they_are_asked_for(catalogue, tmp_path, name):
    options = ("--label", "category", "--predictions", name, "--coverage", "0.9", *QUICK[:1])
    assert command(
        "fit", "nodes.csv", "edges.csv", *options, "training.epochs=2", "--probabilities", "top-2"
    ) == 0  # fmt: skip
    read = {"p.tsv": lambda p: pl.read_csv(p, separator="\t"), "p.parquet": pl.read_parquet,
            "p.jsonl": pl.read_ndjson}  # fmt: skip
    table = read[name](tmp_path / name)
    assert len(table) == 300
    assert {"id", "prediction", "prediction_set", "set_size", "probability_2"} <= set(table.columns)
    assert not (tmp_path / "run" / "predictions.csv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "kind"], "kind"),
        (["--label", "category", "--predictions", "p.xlsx"], "ends in one of"),
        (["--label", "category", "--columns", "price"], "name=text,price=number"),
        (["--label", "category", "--columns", "price=money"], "number, category"),
        (["--label", "category", "--unknown-nodes", "error"], "P-gone"),
        (["--label", "category", "--effort", "default", "--time", "5m"], "--effort best"),
        (["--label", "category", "--time", "soon"], "90s"),
        (["--label", "category", "--set", "training.epoch=3"], "did you mean `epochs`"),
        (["--label", "brand", "--columns", "sku=drop", "--resume", "--overwrite"], "not both"),
    ],
)
def test_a_refusal_is_one_message_and_leaves_nothing(catalogue, tmp_path, capsys, options, message):
    assert command("fit", "nodes.csv", "edges.csv", "--out", "run", *options) == 2
    shown = capsys.readouterr().err
    assert shown.count("error: ") == 1
    assert message in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_tables_in_a_run_are_not_replaced_with_it(catalogue, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    shutil.move(tmp_path / "nodes.csv", run)
    arguments = ("run/nodes.csv", "edges.csv", "--label", "category", "--overwrite")
    assert command("fit", *arguments) == 2
    assert "would be replaced" in capsys.readouterr().err
    assert (run / "nodes.csv").exists()


def test_a_refused_resume_leaves_the_preparation_of_the_run(tmp_path):
    write_catalogue(tmp_path)
    tables = [tmp_path / "nodes.csv", tmp_path / "edges.csv"]
    options = {"label": "category", "out": tmp_path / "run", "recipe": RECIPE}
    scr.fit(*tables, **options)
    before = (tmp_path / "run" / "preparation.json").read_bytes()
    lines = tables[0].read_text(encoding="utf-8").splitlines(keepends=True)
    tables[0].write_text("".join(lines[:-20]), encoding="utf-8")
    with pytest.raises(SCRError, match="another"):
        scr.fit(*tables, **options, resume=True)
    assert (tmp_path / "run" / "preparation.json").read_bytes() == before


def test_a_forgotten_table_of_edges_is_named(catalogue, capsys):
    assert command("fit", "nodes.csv", "--label", "category") == 2
    assert "a table of nodes but none of edges" in capsys.readouterr().err


def test_nodes_without_edges_are_refused(catalogue):
    with pytest.raises(SourceError, match="none of edges"):
        scr.fit(pd.read_csv("nodes.csv"), label="category")

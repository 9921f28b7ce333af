"""`recipes`, `reproduce` and `train --recipe NAME` from the command line."""

import json
import tomllib

import pytest

from scr.cli import main
from scr.recipes import read_recipe, recipe_names

SIGN = "zhang-2021-scr-sign-products"
QUICK = [
    "--set", "training.epochs=2", "--set", "training.evaluate_every=1",
    "--set", "encoder.hidden=8", "--set", "propagation.hops=1",
]  # fmt: skip


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def test_every_recipe_is_listed_on_one_line(capsys):
    assert scr("recipes") == 0
    lines = capsys.readouterr().out.splitlines()
    for name in recipe_names():
        [line] = [line for line in lines if line.split()[:1] == [name]]
        row = read_recipe(name).published
        assert f"{row.test_accuracy:.2f}±{row.test_spread:.2f}" in line


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["--data", "ogbn-mag"], 11 + 3),  # rows, and those that exist as code, too
        (["--data", "papers100M"], 11 + 3),
        (["--method", "scr-m"], 5 + 5 + 2),  # and two of the README
        (["--method", "scr"], 10 + 5),
        (["--encoder", "sagn", "--data", "products", "--method", "sle"], 2),
    ],
)
def test_filters_leave_only_what_fits(filters, count, capsys):
    assert scr("recipes", *filters) == 0
    out = capsys.readouterr().out.split()
    assert len(set(out) & set(recipe_names())) == count


def test_filters_that_nothing_fits_are_told_what_there_is(capsys):
    assert scr("recipes", "--method", "grand") == 2
    assert "rlu-scr" in capsys.readouterr().err


def test_one_recipe_is_printed_as_its_file(capsys):
    assert scr("recipes", SIGN) == 0
    out = capsys.readouterr().out
    assert out == read_recipe(SIGN).path.read_text()
    assert tomllib.loads(out)["published"]["test_accuracy"] == 81.64


def test_an_unknown_recipe_is_told_what_is_close(capsys):
    for command in (["recipes"], ["reproduce"]):
        assert scr(*command, "zhang-2021-scr-sign-product") == 2
        assert SIGN in capsys.readouterr().err


def test_reproduce_prints_both_numbers_and_goes_on(tmp_path, capsys):
    arguments = ["reproduce", SIGN, "--graph", "digits", "--runs", 1, "--out", tmp_path, *QUICK]
    assert scr(*arguments) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{SIGN}, Table 5: SCR | SIGN" in out
    assert "81.64 ± 0.07" in out
    assert "published numbers are for ogbn-products; this graph is `digits`" in out
    result = json.loads((tmp_path / "reproduce.json").read_text())
    assert f"{result['measured']['test_accuracy']:.2f}" in out
    assert result["command"].split()[0] == "scr"
    assert scr(*arguments) == 0
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 1


def test_a_data_set_that_is_not_there_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SCR_DATA", "elsewhere")  # --data wins, and the test leaves no trace
    assert scr("reproduce", SIGN, "--data", tmp_path, "--out", tmp_path / "out") == 2
    assert str(tmp_path / "ogbn_products") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_train_takes_a_published_recipe_by_name_or_edited_and_no_preset_with_it(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(read_recipe(SIGN).text().replace("dropout = 0.4", "dropout = 0.25"))
    for recipe, dropout in ((SIGN, 0.4), (file, 0.25)):
        out = tmp_path / f"run-{dropout}"
        assert scr("train", "digits", "--out", out, "--recipe", recipe, *QUICK) == 0
        tables = json.loads((out / "run.json").read_text())["recipe"]
        assert tables["encoder"]["name"] == "sign"
        assert tables["encoder"]["dropout"] == dropout
        assert tables["regularizer"] == "scr"
        assert tables["consistency"]["threshold"] == 0.85


def test_a_recipe_that_is_neither_file_nor_name_is_one_sentence(tmp_path, capsys):
    assert scr("train", "digits", "--out", tmp_path / "run", "--recipe", "nothing-like-it") == 2
    assert "There is no recipe `nothing-like-it`" in capsys.readouterr().err
    missing = tmp_path / "missing.toml"
    assert scr("train", "digits", "--out", tmp_path / "run", "--recipe", missing) == 2
    assert "missing.toml` does not exist" in capsys.readouterr().err

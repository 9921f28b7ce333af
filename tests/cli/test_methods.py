"""`scr encoders` and `scr regularizers`: what there is, and the settings of each."""

from dataclasses import dataclass, fields
from typing import Literal

import pytest

from scr.cli import main
from scr.config import list_settings
from scr.consistency import REGULARIZERS, ConsistencyConfig, settings_of
from scr.encoders import EncoderConfig
from scr.networks import ENCODERS


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def lines_by_name(printed):
    """First lines of the rows of a table, by their first word."""
    return {
        line.split()[0]: line
        for line in printed.splitlines()
        if line.startswith(" ") and line.split()
    }


def test_every_encoder_is_listed_with_what_it_reads_and_its_paper(capsys):
    assert scr("encoders") == 0
    printed = capsys.readouterr().out
    rows = lines_by_name(printed)
    assert set(ENCODERS) <= set(rows)
    for name, reads in {
        "gcn": "the graph", "sign": "hops ", "ssgc": "hops, mixed", "mlp": "own features",
        "nars-sagn": "hops over relations",
    }.items():  # fmt: skip
        assert f" {reads}" in rows[name]
    assert "Wu et al. 2019, arXiv:1902.07153" in rows["sgc"]
    assert "Zhu and Koniusz 2021, ICLR" in rows["ssgc"]
    assert "logistic regression on the farthest" in rows["sgc"]
    assert "\x1b" not in printed  # nobody reads colors in a pipe


def test_an_encoder_shows_its_settings_with_defaults_and_meanings(capsys):
    assert scr("encoders", "gat") == 0
    printed = capsys.readouterr().out
    rows = lines_by_name(printed)
    assert "Graph" not in rows
    assert rows["heads"].split()[1] == "8"
    assert rows["attention_dropout"].split()[1] == "0.6"
    assert "Chance that a neighbor is left out of a sum." in rows["attention_dropout"]
    assert rows["neighbors"].split()[1] == "none"
    assert "Veličković et al. 2018, arXiv:1710.10903" in printed


@pytest.mark.parametrize("name", ENCODERS)
def test_every_setting_of_every_encoder_is_explained(name, capsys):
    config = ENCODERS[name].config_class
    listed = list_settings(config)
    assert [each.name for each in listed] == [field.name for field in fields(config)]
    assert all(each.meaning for each in listed)
    assert scr("encoders", name) == 0
    assert {each.name for each in listed} <= set(lines_by_name(capsys.readouterr().out))


@dataclass(frozen=True, kw_only=True)
class _Base:
    """Not of a setting."""

    width: int = 3
    """Of the base,
    on two lines."""
    kind: Literal["a", "b"] = "a"
    """Of the base."""
    silent: bool = True


@dataclass(frozen=True, kw_only=True)
class _Special(_Base):
    width: int = 5
    kind: Literal["a", "b"] = "b"
    """Of the special one."""


def test_texts_and_defaults_are_those_of_the_most_special_class():
    width, kind, silent = list_settings(_Special)
    assert (width.default, width.expected, width.meaning) == (
        5, "a whole number", "Of the base, on two lines.",
    )  # fmt: skip
    assert (kind.default, kind.expected, kind.meaning) == (
        "b", "one of `a`, `b`", "Of the special one.",
    )  # fmt: skip
    assert (silent.default, silent.meaning) == (True, "")


def test_every_regularizer_is_listed_with_its_own_defaults(capsys):
    assert scr("regularizers") == 0
    rows = lines_by_name(capsys.readouterr().out)
    assert set(REGULARIZERS) <= set(rows)
    assert "weight=0.5, views=2" in rows["r-drop"]
    assert "Zhang et al. 2021" in rows["scr"]


def test_a_regularizer_shows_the_settings_that_it_reads(capsys):
    assert scr("regularizers", "fixmatch") == 0
    rows = lines_by_name(capsys.readouterr().out)
    assert rows["threshold"].split()[1] == "0.95"  # the paper's, not the default of the section
    assert rows["views"].split()[1] == "1"
    assert "temperature" not in rows
    assert scr("regularizers", "none") == 0
    assert "reads no settings" in capsys.readouterr().out


@pytest.mark.parametrize("name", REGULARIZERS[1:])
def test_every_setting_of_every_regularizer_is_listed(name, capsys):
    assert scr("regularizers", name) == 0
    listed = set(lines_by_name(capsys.readouterr().out))
    every = {field.name for field in fields(ConsistencyConfig)}
    assert listed & every == settings_of(name)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["encoders", "gamlq"], "gamlp"),
        (["regularizers", "fixmtch"], "fixmatch"),
        (["regularizers", "SCR-M"], "scr-m"),
        (["regularizers", "scr_m"], "scr-m"),
        (["compare", "digits", "--out", "never", "--regularizers", "none,fixmtch"], "fixmatch"),
        (["sweep", "digits", "--out", "never", "--regularizers", "scr_m"], "scr-m"),
        (["efficiency", "digits", "--out", "never", "--methods", "none,fixmtch"], "fixmatch"),
        (["train", "digits", "--out", "never", "--regularizer", "softmach"], "softmatch"),
    ],
)
def test_a_misspelt_name_is_told_the_closest_one(arguments, hint, capsys):
    assert scr(*arguments) == 2
    assert f"did you mean `{hint}`?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "compare"])
def test_help_says_where_the_names_are(command, capsys):
    assert scr(command, "--help") == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "scr encoders" in printed
    assert "scr regularizers" in printed


def test_the_base_of_all_encoders_is_explained_too():
    assert all(each.meaning for each in list_settings(EncoderConfig))

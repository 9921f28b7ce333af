"""What `--help` shows, and what a shell completes."""

import inspect
import os
import subprocess
import sys

import pytest
import typer

from scr.cli import _completion, app, main
from scr.consistency import REGULARIZERS
from scr.engines import ENGINES
from scr.metrics import METRICS
from scr.networks import ENCODERS

COMMANDS = {command.name: command.callback for command in app.registered_commands}


@pytest.fixture
def lines(capsys):
    """The help of a command, by option."""

    def run(name):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        shown, option = {}, ""
        for line in capsys.readouterr().out.splitlines():
            words = line.split()
            option = words[0] if words and words[0].startswith("--") else option
            shown[option] = shown.get(option, "") + line
        return shown

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_every_default_is_shown(name, lines):
    shown = lines(name)
    defaults = inspect.signature(inspect.unwrap(COMMANDS[name])).parameters
    checked = 0
    for each in typer.main.get_command(app).commands[name].params:
        if each.name not in defaults or each.param_type_name == "argument":
            continue
        default = defaults[each.name].default
        if default in (inspect.Parameter.empty, None, False) and not each.secondary_opts:
            continue
        if each.secondary_opts:
            if default is None:
                continue
            default = (each.opts if default else each.secondary_opts)[0].removeprefix("--")
        assert f"[default: {default}" in shown[each.opts[0]], each.opts
        checked += 1
    wanted = [p for p in defaults.values() if p.default not in (p.empty, None, False)]
    assert checked >= len(wanted)


def test_brackets_are_text_also_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit):
        main(["ingest", "--help"])
    assert "[id, else the first]" in " ".join(capsys.readouterr().out.split())


def test_names_that_are_completed_are_those_of_the_catalogs():
    assert set(_completion.ENCODERS) == set(ENCODERS)
    assert set(_completion.REGULARIZERS) == set(REGULARIZERS)
    assert set(_completion.METRICS) == set(METRICS)
    assert _completion.ENGINES == ENGINES


def asked(**variables):
    """What a shell gets that asks for completions or for the script."""
    done = subprocess.run(
        [sys.executable, "-m", "scr.cli"], env={**os.environ, **variables}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "said"),
    [("bash", "complete -o default -F _scr_completion scr"), ("zsh", "#compdef scr")],
)
def test_the_script_of_a_shell_can_be_shown(shell, said):
    assert said in asked(_SCR_COMPLETE=f"source_{shell}")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("scr tr", ["train"]),
        ("scr train --encoder nars-g", ["nars-gamlp", "nars-gamlp-jk"]),
        ("scr compare dig", ["digits"]),
        ("scr compare digits --regularizers none,scr", ["none,scr", "none,scr-m"]),
        ("scr download ogbn-p", ["ogbn-products", "ogbn-papers100M"]),
        ("scr train digits --recipe chien-2021-sle-sagn-giant-p",
         ["chien-2021-sle-sagn-giant-products"]),
    ],
)  # fmt: skip
def test_names_are_completed(line, wanted):
    words = line.split()
    found = asked(_SCR_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert found.split() == wanted


def test_completing_imports_no_torch():
    code = (
        "import sys; from scr.cli import _completion as c; c.recipes('h'); c.datasets('d');"
        "assert not {'torch', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""What is printed to a pipe: whole lines, however long, and paths as they are."""

import io
import json
import os
import subprocess
import sys

import pytest
from rich.table import Table

from scr.cli import main
from scr.cli._console import LineConsole

EDGES = "source,target\na,b\nb,c\nc,d\nd,e\ne,f\n"
NODES = (
    "id,label,f1,split\na,x,1,train\nb,y,2,train\nc,x,3,val\nd,y,4,val\ne,x,5,test\nf,y,6,test\n"
)
# A style, an emoji and an end of a style to rich; folders to everybody else.
NAMES = ["[x]", "[bold red]", ":smile:", "[", "wide" * 50, "another" * 30]


@pytest.fixture
def folder(tmp_path):
    """A folder with tables of a small graph and with a path that no terminal has room for."""
    folder = tmp_path.joinpath(*NAMES)
    folder.mkdir(parents=True)
    (folder / "edges.csv").write_text(EDGES)
    (folder / "nodes.csv").write_text(NODES)
    return folder


@pytest.fixture
def lines(capsys):
    """Run a command in this process; returns the lines of stdout or, after a failure, of stderr."""

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert (caught.value.code or 0) == code, printed.err
        return (printed.err if code else printed.out).splitlines()

    return run


def test_a_real_pipe_gets_one_line_per_fact_whatever_the_width_of_the_terminal(folder):
    command = [sys.executable, "-m", "scr.cli", "ingest", folder, folder / "store"]
    done = subprocess.run(
        command, env={**os.environ, "COLUMNS": "30"}, capture_output=True, text=True, check=True
    )
    printed = done.stdout.splitlines()
    assert printed[-1] == f"Wrote {folder / 'store'}"
    assert ["split", "2 train, 2 valid, 2 test"] in [line.split(maxsplit=1) for line in printed]
    assert all(line == line.rstrip() for line in printed)


def test_verify_says_its_sentence_on_one_line(folder, lines):
    lines("ingest", folder, folder / "store")
    [line] = lines("verify", folder / "store")
    assert line.startswith(f"{folder / 'store'} is intact: ")
    assert line.endswith(" bytes, every checksum agrees")


def test_an_error_names_the_whole_path_on_one_line(folder, lines):
    message, *_ = lines("verify", folder / "nothing", code=2)
    assert str(folder / "nothing") in message


def test_a_usage_error_names_the_whole_value_on_one_line(folder, lines):
    [*_, message] = lines(folder, code=2)
    assert message.endswith(f"No such command '{folder}'.")


def test_compare_prints_each_row_and_each_sentence_on_one_line(folder, lines):
    out = folder / "result"
    printed = lines(
        "compare", folder, "--out", out, "--encoders", "sgc", "--regularizers", "none,scr",
        "--seeds", 1, "--set", "training.epochs=1",
    )  # fmt: skip
    rows = json.loads((out / "compare.json").read_text())["rows"]
    for row in rows:
        [line] = [
            each for each in printed if each.split()[:2] == [row["encoder"], row["regularizer"]]
        ]
        assert f"{100 * row['test_mean']:.1f}" in line.split()
        assert line.endswith(row["verdict"]) or row["verdict"] == "base"
    [caption] = [each for each in printed if each.startswith("Percent, mean")]
    assert caption.endswith("with its 95% interval, which the verdict follows.")
    assert printed[-1] == f"Wrote {out / 'compare.json'} and {out / 'report.html'}"
    assert all(line == line.rstrip() for line in printed)


@pytest.mark.parametrize(
    ("command", "option", "text"),
    [
        ("ingest", "--id-column", "Tables: column of node ids. [id, else the first]"),
        ("ingest", "--label-column", "Tables: column of classes, or none. [label]"),
        ("propagate", "--out", "Folder for the hops. [beside the store]"),
    ],
)
def test_help_has_each_option_on_one_line_with_its_brackets(command, option, text, lines):
    [line] = [each for each in lines(command, "--help") if each.split()[:1] == [option]]
    assert text in line


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_gets_tables_that_fit_it_and_brackets_as_they_are():
    table = Table(caption="a caption of several words")
    table.add_column("[name]")
    table.add_row("[bold]many words that do not fit[/]")
    terminal, pipe = Terminal(), io.StringIO()
    for file in (terminal, pipe):
        LineConsole(file=file, width=20, color_system=None).print(table)
    shown = terminal.getvalue().splitlines()
    assert max(map(len, shown)) <= 20
    assert "[bold]many" in terminal.getvalue()
    written = [line.strip("│┃ ") for line in pipe.getvalue().splitlines()]
    assert "[bold]many words that do not fit[/]" in written
    assert written[-1] == "a caption of several words"

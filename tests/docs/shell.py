"""Lines of shell blocks: `scr` through its app, others checked against the repository."""

from __future__ import annotations

import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import typer
from tests.docs.blocks import REPOSITORY
from tests.docs.given import RUNS
from typer.testing import CliRunner

from scr.cli import app

LIMITS = {
    "--nodes": 1500, "--edges": 6000, "--features": 16, "--classes": 5, "--seeds": 2, "--runs": 1,
    "--jobs": 1,
}  # fmt: skip
"""The most that a command of a page is run with, where the page says a larger number."""
APPENDED = {
    "tune": ["--time", "2s", "--jobs", "1", "--set", "training.epochs=10",
             "--set", "training.select_after=0"],
    "fit": ["--set", "training.epochs=5"],
    "learning-curve": ["--labels", "1,2", "--seeds", "1"],
    "compare": ["--seeds", "1"],
    "sweep": ["--seeds", "1"],
    "demo": ["--seeds", "1", "--jobs", "1"],
}  # fmt: skip
"""To shorten a command: of an option that is given twice, the last counts."""
FRACTIONS = {"--label-fraction": 0.2, "--valid-fraction": 0.1, "--test-fraction": 0.1}
"""The least, so that every class of a small graph has labels."""

_COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
_COMMON = {"--help", "--debug", "--version", "--install-completion", "--show-completion"}


_OTHERS = {"curl": ("-d",), "docker": ("build", "run")}
"""Programs of others that pages may name in blocks that are marked as not run."""


class BadCommand(Exception):
    """A line of a page that does not do what it says."""


def commands(text: str) -> list[list[str]]:
    """The lines of a block as words, without comments and with continued lines joined.

    >>> commands("scr train G \\\\\\n    --out run  # a run")
    [['scr', 'train', 'G', '--out', 'run']]
    """
    joined = text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


def check(words: list[str]) -> None:
    """Raise if a command, an option, a target of `make` or a script does not exist."""
    program, *arguments = words
    match program:
        case "scr":
            _check_scr(arguments)
        case "make":
            targets = re.findall(r"^([a-z0-9-]+):", _read("Makefile"), re.M)
            _expect(arguments, [*targets, *(word for word in arguments if "=" in word)], "target")
        case "python":
            _check_script(arguments)
        case "pip":
            _check_pip(arguments)
        case "git":
            _expect(arguments[:1], ["clone"], "git command")
        case "curl" | "docker":
            _expect(arguments[:1], _OTHERS[program], f"use of {program}")
        case _:
            raise BadCommand(f"`{program}` is none of scr, make, python, pip, git, curl, docker")


def run(words: list[str], finished: Path | None = None) -> str:
    """Check a command, and run it if it is one of `scr`; what it prints.

    Where it reads a run that pages presuppose and this one has not made, `finished` is copied.
    """
    words, target = _redirected(words)
    check(words)
    if words[0] in _OTHERS:
        raise BadCommand(f"`{words[0]}` cannot be run here; mark the block as not run")
    if words[0] != "scr":
        return ""
    arguments = _shortened(words[1:])
    made = {arguments[at] for at in _outputs(arguments)}
    for name in {word.rstrip("/") for word in arguments} & set(RUNS) - made:
        if finished is not None and not Path(name).exists():
            shutil.copytree(finished, name)
    result = CliRunner().invoke(app, arguments)
    if result.exit_code != 0:
        raise BadCommand(f"exit code {result.exit_code}:\n{result.output}") from result.exception
    if target:
        Path(target).write_text(result.stdout, encoding="utf-8")
    return result.output


def _outputs(arguments: list[str]) -> list[int]:
    """Where a command names what it makes."""
    after = [at + 1 for at, word in enumerate(arguments) if word == "--out"]
    return [*after, 2] if arguments[0] == "ingest" else after


def _redirected(words: list[str]) -> tuple[list[str], str]:
    if ">" not in words:
        return words, ""
    at = words.index(">")
    return words[:at], words[at + 1]


def _shortened(arguments: list[str]) -> list[str]:
    """The same command with less to do."""
    shorter = list(arguments)
    for at, (option, value) in enumerate(pairwise(arguments)):
        if option in LIMITS and value.isdecimal():
            shorter[at + 1] = str(min(int(value), LIMITS[option]))
        if option in FRACTIONS:
            shorter[at + 1] = str(max(float(value), FRACTIONS[option]))
    return shorter + APPENDED.get(arguments[0], [])


def _check_scr(arguments: list[str]) -> None:
    words = [word for word in arguments if not word.startswith("-")]
    if words and words[0].isupper():  # as in `scr COMMAND --help`
        return
    _expect(words[:1], list(_COMMANDS), "command of scr")
    if words[:1] in (["recipes"], ["reproduce"]):
        named = [word for word in words if re.match(r"[a-z]+-\d{4}-", word)]
        _expect(named, _recipes(), "recipe")
    options = set(_COMMON)
    for parameter in _COMMANDS[words[0]].params if words else ():
        options.update(parameter.opts, parameter.secondary_opts)
    typed = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    _expect([word for word in typed if not _is_number(word)], options, f"option of {words[:1]}")


def _recipes() -> set[str]:
    return {path.stem for path in (REPOSITORY / "src" / "scr" / "recipes").glob("*.toml")}


def _check_script(arguments: list[str]) -> None:
    script_name = arguments[0]
    if arguments[0] == "-m":
        module = arguments[1].replace(".", "/")
        is_package = (REPOSITORY / module).is_dir()
        script_name = f"{module}/__main__.py" if is_package else f"{module}.py"
        _expect([script_name], {*_files("tests"), *_files("campaigns")}, "module")
        if not script_name.startswith("campaigns/"):
            return
    else:
        _expect(arguments[:1], _files("benchmarks"), "script")
    script = _read(script_name)
    typed = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    _expect(typed, re.findall(r'"(--[\w-]+)"', script), f"option of {arguments[0]}")


def _check_pip(arguments: list[str]) -> None:
    _expect(arguments[:1], ["install"], "pip command")
    for extra in re.findall(r"\.\[([\w,-]+)\]", " ".join(arguments)):
        _expect(
            extra.split(","), re.findall(r"^([\w-]+) = \[", _read("pyproject.toml"), re.M), "extra"
        )
    if "-c" in arguments:
        _expect([arguments[arguments.index("-c") + 1]], ["constraints.txt"], "file")


def _expect(found: list[str], known: object, kind: str) -> None:
    for each in found:
        if each not in known:  # type: ignore[operator]
            raise BadCommand(f"there is no {kind} `{each}`")


def _is_number(word: str) -> bool:
    return word.lstrip("-").replace(".", "").isdecimal()


def _files(folder: str) -> set[str]:
    return {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / folder).rglob("*.py")}


def _read(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")

"""Commands, options, settings and names that messages send people to are there."""

import ast
import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from scr.cli import app, main
from scr.consistency import ConsistencyConfig
from scr.features import FeatureConfig
from scr.networks import ENCODERS
from scr.propagation import PropagationConfig
from scr.training import PostprocessConfig, TrainingConfig
from scr.training._config import StagesConfig

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))
COMMANDS = {
    name: {option for parameter in command.params for option in
           (*parameter.opts, *parameter.secondary_opts)} | {"--help", "--debug", "--version"}
    for name, command in typer.main.get_command(app).commands.items()
}  # fmt: skip
NO_SETTINGS = {"data.npz", "data.key", "postprocess.key", "encoder.module", "encoder.name"}
"""A file, placeholders, what exists in Python only, and what says whose settings the others are."""
SECTIONS = {
    "consistency": [ConsistencyConfig], "data": [FeatureConfig], "postprocess": [PostprocessConfig],
    "propagation": [PropagationConfig], "stages": [StagesConfig], "training": [TrainingConfig],
    "encoder": [encoder.config_class for encoder in ENCODERS.values()],
}  # fmt: skip


def texts(tree: ast.AST) -> list[str]:
    """All strings of a module but its docstrings; what f-strings fill in is `…`."""
    found = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            found.append("".join(parts))
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return found


TEXTS = [(path.name, text) for path in SOURCES for text in texts(ast.parse(path.read_text()))]


def named(pattern: str, texts: list[tuple[str, str]] = TEXTS) -> list[tuple[str, str]]:
    """Everything that a pattern finds, with the file that says it."""
    found = {(file, match) for file, text in texts for match in re.findall(pattern, text)}
    assert found
    return sorted(found)


def test_every_command_line_in_a_message_is_one():
    for file, line in named(r"`scr ([a-z]+\b[^`]*)`"):
        command, *words = line.split()
        assert command in COMMANDS, file
        options = {word for word in words if word.startswith("--") and "…" not in word}
        assert options <= COMMANDS[command], (file, command)


def test_every_option_in_a_message_is_one_of_some_command():
    known = set().union(*COMMANDS.values())
    of_ray = r"`ray start[^`]*`"  # a command of another program
    texts = [(file, re.sub(of_ray, "", text)) for file, text in TEXTS]
    options = named(r"(?<![\w(-])(--[a-z][a-z-]*)(?!:)\b", texts)
    assert [(file, option) for file, option in options if option not in known] == []


def test_every_setting_in_a_message_is_one():
    known = {
        f"{section}.{field.name}"
        for section, configs in SECTIONS.items()
        for config in configs
        for field in dataclasses.fields(config)
    } | NO_SETTINGS
    settings = named(rf"(?<![\w.])((?:{'|'.join(SECTIONS)})\.[a-z_]+)(?![\w.(])")
    assert [(file, setting) for file, setting in settings if setting not in known] == []


def test_every_python_name_in_a_message_is_found_after_import_scr():
    names = sorted({name for _, name in named(r"`[^`]*?\b(scr(?:\.[A-Za-z_]\w*)+)")})
    assert "scr.typed_features.complete_features" in names
    # Elsewhere in this process, packages may have been imported by their own names.
    subprocess.run([sys.executable, "-c", "import scr; " + "; ".join(names)], check=True)


TYPED = """
import re, scr
from scr.errors import GraphError
graph = scr.Graph.from_relations(
    {("author", "writes", "paper"): [[0, 1, 1], [0, 1, 2]]}, target="paper",
    features={"paper": [[1.0], [2.0], [4.0]]}, labels=[0, 1, 0], train=[0, 1],
)
try:
    scr.propagate(graph, 1)
except GraphError as error:
    features, = re.findall("`features=(.*)`", error.hint)
print(scr.propagate(graph, 1, features=eval(features)).shape[0])
"""


def test_what_the_hint_for_missing_features_says_can_be_run():
    found = subprocess.run([sys.executable, "-c", TYPED], check=True, capture_output=True)
    assert int(found.stdout) == 3  # hops of the papers, which read the authors' rows


def test_what_the_hint_for_new_nodes_without_labels_says_can_be_run(tmp_path, capsys):
    tables, store, run = tmp_path / "tables", tmp_path / "store", tmp_path / "run"
    tables.mkdir()
    pixels = ",".join(f"pixel_{number}" for number in range(64))
    rows = "\n".join(f"{name}," + ",".join(["0"] * 64) for name in "abc")
    (tables / "nodes.csv").write_text(f"id,{pixels}\n{rows}\n")
    (tables / "edges.csv").write_text("source,target\na,b\nb,c\n")
    assert scr("train", "digits", "--out", run, "--set", "training.epochs=1") == 0
    predicting = ["predict", run, "--out", tmp_path / "new.parquet", "--graph"]
    assert scr(*predicting, tables) == 2
    (line,) = re.findall(r"hint: name it with `scr ([^`]*)`", capsys.readouterr().err)
    filled = {"TABLES": tables, "STORE": store, "NAME": "none"}
    assert scr(*(filled.get(word, word) for word in line.split())) == 0
    assert scr(*predicting, store) == 0
    assert (tmp_path / "new.parquet").exists()


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0

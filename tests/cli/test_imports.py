"""What a first run on the embedded graph imports: nothing that it does not use."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
from scr.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = ["torch._dynamo", "torch._inductor", "sympy", "sklearn", "scipy.stats", "torch_geometric"]
PLOTS = ["matplotlib", "jinja2"]


def imported(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_first_run_imports_neither_a_compiler_nor_scikit_learn_nor_plots_nor_pandas(tmp_path):
    modules = imported("train", "digits", "--out", tmp_path / "run", "--set", "training.epochs=2")
    assert (tmp_path / "run" / "report.html").exists()
    assert "torch" in modules
    assert not modules.intersection([*HEAVY, "matplotlib", "pandas"])


@pytest.mark.parametrize("command", [["encoders"], ["regularizers"], ["train", "--help"]])
def test_commands_that_draw_nothing_import_no_plots(command):
    assert not imported(*command).intersection([*HEAVY, *PLOTS])

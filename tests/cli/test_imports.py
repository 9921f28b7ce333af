"""What a first run on the embedded graph imports: nothing that it does not use."""

import json
import subprocess
import sys

CODE = """
import json, sys
from scr.cli import main
for line in sys.argv[1:]:
    try:
        main(line.split())
    except SystemExit as end:
        assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = ["torch._dynamo", "torch._inductor", "sympy", "sklearn", "scipy.stats", "torch_geometric"]
PLOTS = ["matplotlib", "jinja2"]


def imported(*lines):
    done = subprocess.run(
        [sys.executable, "-c", CODE, *lines], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_first_run_imports_neither_a_compiler_nor_scikit_learn_nor_plots_nor_pandas(tmp_path):
    modules = imported(f"train digits --out {tmp_path / 'run'} --set training.epochs=2")
    assert (tmp_path / "run" / "report.html").exists()
    assert "torch" in modules
    assert not modules.intersection([*HEAVY, "matplotlib", "pandas"])


def test_commands_that_draw_nothing_import_no_plots():
    modules = imported("encoders", "regularizers", "train --help")
    assert not modules.intersection([*HEAVY, *PLOTS])

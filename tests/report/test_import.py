import subprocess
import sys

CODE = """
import sys
import scr.report
assert "matplotlib" not in sys.modules, "the package itself must stay light"
for name in scr.report.__all__:
    getattr(scr.report, name)
import scr.report.page
assert "matplotlib" not in sys.modules, "the page of a run is drawn without it"
loaded = {"torch", "sklearn"} & set(sys.modules)
assert not loaded, loaded
"""


def test_reports_need_neither_torch_nor_scikit_learn():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""What a run or a comparison showed: measures, tables, plots and one self-contained HTML page.

Everything here works on arrays, JSON and Parquet, without torch, so that a report can be made on
a machine that could never train the model. Names are imported when they are first used, since
matplotlib takes longer to import than most commands take to run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scr.report.comparison import compare_runs as compare_runs
    from scr.report.comparison import pooled_difference as pooled_difference
    from scr.report.conclusion import conclusions as conclusions
    from scr.report.examples import choose_examples as choose_examples
    from scr.report.intervals import paired_difference as paired_difference
    from scr.report.metrics import classification_metrics as classification_metrics
    from scr.report.metrics import confusion_matrix as confusion_matrix
    from scr.report.metrics import per_class_table as per_class_table
    from scr.report.metrics import reliability_curve as reliability_curve
    from scr.report.page import comparison_page as comparison_page
    from scr.report.page import run_page as run_page
    from scr.report.page import write_page as write_page
    from scr.report.tables import comparison_markdown as comparison_markdown
    from scr.report.tables import comparison_table as comparison_table

_HOMES = {
    "choose_examples": "scr.report.examples",
    "classification_metrics": "scr.report.metrics",
    "compare_runs": "scr.report.comparison",
    "comparison_markdown": "scr.report.tables",
    "comparison_page": "scr.report.page",
    "comparison_table": "scr.report.tables",
    "conclusions": "scr.report.conclusion",
    "confusion_matrix": "scr.report.metrics",
    "paired_difference": "scr.report.intervals",
    "per_class_table": "scr.report.metrics",
    "pooled_difference": "scr.report.comparison",
    "reliability_curve": "scr.report.metrics",
    "run_page": "scr.report.page",
    "write_page": "scr.report.page",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'scr.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])

"""What run directories and folders of results hold: anything else in them is the user's.

Files that other packages add to a run are listed here too, so that `overwrite` knows them.
"""

from __future__ import annotations

from pathlib import Path

from scr.errors import StoreError
from scr.runs._directory import (
    BREAKDOWN,
    CALIBRATION,
    CHECKPOINT,
    EXPLANATION,
    GRAPH,
    HANDOVER,
    HISTORY,
    METRICS,
    MODEL,
    PREDICTIONS,
    REPORT,
    RUN,
    SPLIT,
    SUGGESTIONS,
)
from scr.storage import (
    ARTIFACT,
    CHECKSUMS,
    FILE,
    MANIFEST,
    Contents,
    check_replaced,
    is_own_file,
)

RESULTS = "runs.jsonl"
"""By which a folder of results is known."""
_SECTIONS = ("data", "propagation", "encoder", "consistency", "training", "stages", "postprocess")


def _files(*names: str) -> Contents:
    return dict.fromkeys(names, FILE)


_FOLD = _files(
    RUN, SPLIT, HISTORY, MODEL, HANDOVER, CALIBRATION, "times.json", "held_out.npy", CHECKSUMS
)
_FIT = _files("fit.json", "preparation.json", "preparation.npz", "predictions.csv")
_RESULT: Contents = {
    **_files(
        RESULTS, REPORT, CHECKSUMS, "compare.json", "reproduce.json",
        "sweep.json", "sweep.csv", "sweep.png", *(f"{section}.*.png" for section in _SECTIONS),
        "efficiency.json", "efficiency.csv", "efficiency.png",
        "learning_curve.json", "learning_curve.csv", "learning_curve.png",
    ),
    GRAPH: ARTIFACT,
}  # fmt: skip
RUN_CONTENTS: Contents = {
    **_files(
        RUN, METRICS, HISTORY, MODEL, PREDICTIONS, EXPLANATION, SUGGESTIONS, REPORT, SPLIT,
        HANDOVER, CALIBRATION, BREAKDOWN, CHECKSUMS, "ensemble.json",
        f"{Path(CHECKPOINT).stem}*{Path(CHECKPOINT).suffix}",
    ),
    **_FIT,
    GRAPH: ARTIFACT,
    "models": {"*": {"fold-*": _FOLD}},
    "smooth": _files("smooth.json", PREDICTIONS),
    "learning-curve": _RESULT,
}  # fmt: skip
"""What a run directory holds, whichever command wrote it."""
RESULT_CONTENTS: Contents = {
    **_RESULT,
    "tables": _files("nodes.csv", "edges.csv"),
    "fit": RUN_CONTENTS,
}
"""What a folder of results holds: of an experiment, or of the demo."""


def check_replaced_run(path: Path, *also: str) -> None:
    """Refuse to replace a folder that is no run, or holds more than a run; `also` are files."""
    check_replaced(path, {**RUN_CONTENTS, **_files(*also)}, known_by=RUN)


def check_replaced_results(path: Path) -> None:
    """Refuse to replace a folder that holds no results, or more than these."""
    check_replaced(path, RESULT_CONTENTS, known_by=RESULTS)


def refuse_own_file(path: Path) -> None:
    """Raise a `StoreError` if a file to write is one of those of a run, of results or of a store.

    It would not be that run any more.
    """
    whole = path.resolve()
    kinds = ((RUN, RUN_CONTENTS), (RESULTS, RESULT_CONTENTS), (MANIFEST, ARTIFACT))
    for folder in whole.parents:
        for known_by, contents in kinds:
            if (folder / known_by).is_file() and is_own_file(whole, folder, contents):
                raise StoreError(
                    f"`{path}` is one of the files of `{folder}` itself; expected another file",
                    hint="choose another name or folder",
                )

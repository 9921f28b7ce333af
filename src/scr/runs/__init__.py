"""A run on disk: its directory, its records and its name; nothing here imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.runs._contents import check_replaced_results as check_replaced_results
    from scr.runs._contents import check_replaced_run as check_replaced_run
    from scr.runs._contents import refuse_own_file as refuse_own_file
    from scr.runs._directory import BREAKDOWN as BREAKDOWN
    from scr.runs._directory import CALIBRATION as CALIBRATION
    from scr.runs._directory import CHECKPOINT as CHECKPOINT
    from scr.runs._directory import EXPLANATION as EXPLANATION
    from scr.runs._directory import GRAPH as GRAPH
    from scr.runs._directory import HANDOVER as HANDOVER
    from scr.runs._directory import HISTORY as HISTORY
    from scr.runs._directory import METRICS as METRICS
    from scr.runs._directory import MODEL as MODEL
    from scr.runs._directory import PREDICTIONS as PREDICTIONS
    from scr.runs._directory import REPORT as REPORT
    from scr.runs._directory import RUN as RUN
    from scr.runs._directory import SPLIT as SPLIT
    from scr.runs._directory import SUGGESTIONS as SUGGESTIONS
    from scr.runs._directory import describe_run as describe_run
    from scr.runs._directory import read_json as read_json
    from scr.runs._directory import read_metrics as read_metrics
    from scr.runs._directory import read_run as read_run
    from scr.runs._directory import read_split as read_split
    from scr.runs._directory import remove_checkpoints as remove_checkpoints
    from scr.runs._directory import run_identity as run_identity
    from scr.runs._directory import start_run as start_run
    from scr.runs._directory import subsets_identity as subsets_identity
    from scr.runs._directory import versions as versions
    from scr.runs._directory import withdraw_run as withdraw_run
    from scr.runs._directory import write_history as write_history
    from scr.runs._directory import write_json as write_json
    from scr.runs._directory import write_split as write_split
    from scr.runs._seal import finish_files as finish_files
    from scr.runs._seal import finish_run as finish_run
    from scr.runs._seal import rewrite_json as rewrite_json
    from scr.runs._seal import verify_run as verify_run
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

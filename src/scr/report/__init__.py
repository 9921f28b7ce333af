"""What a run or a comparison showed: measures, tables, charts and one self-contained HTML page.

Everything here works on arrays, JSON and Parquet, without torch, so that a report can be made on
a machine that could never train the model. Names are imported when they are first used, since
matplotlib takes longer to import than most commands take to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.metrics import MetricsInParts as MetricsInParts
    from scr.metrics import classification_metrics as classification_metrics
    from scr.metrics import confusion_matrix as confusion_matrix
    from scr.metrics import per_class_table as per_class_table
    from scr.metrics import reliability_curve as reliability_curve
    from scr.report._comparison import BASE as BASE
    from scr.report._comparison import ComparisonRow as ComparisonRow
    from scr.report._comparison import best_on_validation as best_on_validation
    from scr.report._comparison import compare_runs as compare_runs
    from scr.report._comparison import paired_difference as paired_difference
    from scr.report._comparison import pooled_difference as pooled_difference
    from scr.report._conclusion import comparison_table as comparison_table
    from scr.report._conclusion import conclusions as conclusions
    from scr.report._conclusion import inactive_note as inactive_note
    from scr.report._efficiency import KeptCurve as KeptCurve
    from scr.report._efficiency import efficiency_csv as efficiency_csv
    from scr.report._efficiency import efficiency_sentences as efficiency_sentences
    from scr.report._efficiency import efficiency_table as efficiency_table
    from scr.report._efficiency import kept_curve as kept_curve
    from scr.report._efficiency import mean_curve as mean_curve
    from scr.report._efficiency import reaches as reaches
    from scr.report._examples import ExampleGroup as ExampleGroup
    from scr.report._examples import choose_examples as choose_examples
    from scr.report._explanation import explained_model as explained_model
    from scr.report._explanation import explanation_sentences as explanation_sentences
    from scr.report._formatting import MISSING as MISSING
    from scr.report._formatting import csv_text as csv_text
    from scr.report._formatting import interval as interval
    from scr.report._formatting import mean_and_spread as mean_and_spread
    from scr.report._formatting import number_or_none as number_or_none
    from scr.report._formatting import plain as plain
    from scr.report._formatting import points as points
    from scr.report._learning_curve import curve_csv as curve_csv
    from scr.report._learning_curve import curve_points as curve_points
    from scr.report._learning_curve import curve_sentences as curve_sentences
    from scr.report._learning_curve import inactive_runs as inactive_runs
    from scr.report._learning_curve import last_step as last_step
    from scr.report._records import read_comparison as read_comparison
    from scr.report._records import read_history as read_history
    from scr.report._records import read_object as read_object
    from scr.report._records import read_records as read_records
    from scr.report._records import record_checksum as record_checksum
    from scr.report._records import shown_from as shown_from
    from scr.report._regularizers import explanation as explanation
    from scr.report._sensitivity import curve_sentence as curve_sentence
    from scr.report._sensitivity import summarize as summarize
    from scr.report._sensitivity import sweep_cautions as sweep_cautions
    from scr.report._sensitivity import sweep_csv as sweep_csv
    from scr.report._sensitivity import sweep_curves as sweep_curves
    from scr.report._sensitivity import sweep_headline as sweep_headline
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

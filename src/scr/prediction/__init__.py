"""Predictions for people: tables with their own ids, other graphs, explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.prediction._breakdown import label_distances as label_distances
    from scr.prediction._breakdown import write_breakdown as write_breakdown
    from scr.prediction._class_shares import ClassShares as ClassShares
    from scr.prediction._class_shares import CorrectionGain as CorrectionGain
    from scr.prediction._class_shares import bbse_shares as bbse_shares
    from scr.prediction._class_shares import correction_gain as correction_gain
    from scr.prediction._class_shares import em_shares as em_shares
    from scr.prediction._class_shares import reweighted as reweighted
    from scr.prediction._ensemble import ENSEMBLE as ENSEMBLE
    from scr.prediction._ensemble import EnsemblePredictor as EnsemblePredictor
    from scr.prediction._ensemble import WeightedModel as WeightedModel
    from scr.prediction._ensemble import open_run as open_run
    from scr.prediction._ensemble import read_ensemble as read_ensemble
    from scr.prediction._ensemble import verify_models as verify_models
    from scr.prediction._explanation import MOST_NODES as MOST_NODES
    from scr.prediction._explanation import Explanation as Explanation
    from scr.prediction._fitted_classifier import FittedClassifier as FittedClassifier
    from scr.prediction._ids import NodeIds as NodeIds
    from scr.prediction._ids import UnknownIdsError as UnknownIdsError
    from scr.prediction._ids import is_table_of_nodes as is_table_of_nodes
    from scr.prediction._ids import named_nodes as named_nodes
    from scr.prediction._new_nodes import NewNodePredictor as NewNodePredictor
    from scr.prediction._new_nodes import NewPredictions as NewPredictions
    from scr.prediction._onnx import ExportPart as ExportPart
    from scr.prediction._predictor import Predictor as Predictor
    from scr.prediction._shards import write_prediction_shards as write_prediction_shards
    from scr.prediction._stored_model import TrainedModel as TrainedModel
    from scr.prediction._stored_model import load_run_graph as load_run_graph
    from scr.prediction._stored_model import read_model as read_model
    from scr.prediction._stored_model import write_model as write_model
    from scr.prediction._suggestions import Suggestion as Suggestion
    from scr.prediction._suggestions import suggest as suggest
    from scr.prediction._suggestions import write_run_suggestions as write_run_suggestions
    from scr.prediction._suggestions import write_suggestions as write_suggestions
    from scr.prediction._table import ProbabilityColumns as ProbabilityColumns
    from scr.prediction._table import write_predictions as write_predictions
    from scr.prediction._table_writers import table_writer as table_writer
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

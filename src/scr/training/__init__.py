"""Training: recipes and presets, prepared rows, mixed batches, the loop and its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.training._config import Norm as Norm
    from scr.training._config import PostprocessConfig as PostprocessConfig
    from scr.training._config import TrainingConfig as TrainingConfig
    from scr.training._epoch_lines import EpochLines as EpochLines
    from scr.training._epoch_lines import in_turn as in_turn
    from scr.training._fitting import Fitted as Fitted
    from scr.training._fitting import all_but as all_but
    from scr.training._fitting import check_trainable as check_trainable
    from scr.training._fitting import fit as fit
    from scr.training._fitting import graph_facts as graph_facts
    from scr.training._fitting import nodes_with_labels as nodes_with_labels
    from scr.training._inductive import graph_to_select_on as graph_to_select_on
    from scr.training._logs import MLflowLog as MLflowLog
    from scr.training._logs import TensorBoardLog as TensorBoardLog
    from scr.training._logs import open_log as open_log
    from scr.training._loop import Trainer as Trainer
    from scr.training._prepare import HopsBudgetError as HopsBudgetError
    from scr.training._prepare import HopsRequest as HopsRequest
    from scr.training._prepare import Prepared as Prepared
    from scr.training._prepare import SubsetNames as SubsetNames
    from scr.training._prepare import chosen_subsets as chosen_subsets
    from scr.training._prepare import fixed_mixture as fixed_mixture
    from scr.training._prepare import make_rows as make_rows
    from scr.training._prepare import node_features as node_features
    from scr.training._prepare import prepare as prepare
    from scr.training._prepare import what_is_prepared as what_is_prepared
    from scr.training._prepare_graph import Preparation as Preparation
    from scr.training._recipe import AUTO_ENCODER as AUTO_ENCODER
    from scr.training._recipe import DEFAULT_ENCODER as DEFAULT_ENCODER
    from scr.training._recipe import DEFAULT_REGULARIZER as DEFAULT_REGULARIZER
    from scr.training._recipe import SECTIONS as SECTIONS
    from scr.training._recipe import Recipe as Recipe
    from scr.training._recipe import Tables as Tables
    from scr.training._recipe import check_regularizer as check_regularizer
    from scr.training._recipe import merge as merge
    from scr.training._recipe import resolve as resolve
    from scr.training._recipe import specialize as specialize
    from scr.training._recipe import variants as variants
    from scr.training._records import EpochRecord as EpochRecord
    from scr.training._records import Handover as Handover
    from scr.training._records import Stage as Stage
    from scr.training._refit import with_known_labels as with_known_labels
    from scr.training._rows import Rows as Rows
    from scr.training._rows import RowSource as RowSource
    from scr.training._rows import positions_of as positions_of
    from scr.training._rows import predict_probabilities as predict_probabilities
    from scr.training._rows import stream_logits as stream_logits
    from scr.training._stages import handed_over as handed_over
    from scr.training._stages import rebuilds_label_hops as rebuilds_label_hops
    from scr.training._stages import stage_count as stage_count
    from scr.training._stages import stage_epochs as stage_epochs
    from scr.training._tensor_file import read_header as read_header
    from scr.training._tensor_file import read_tensors as read_tensors
    from scr.training._tensor_file import write_tensors as write_tensors
    from scr.training._together import GroupOfWorkers as GroupOfWorkers
    from scr.training._together import check_together as check_together
    from scr.training._together import workers_of as workers_of
    from scr.training._trust import TermGain as TermGain
    from scr.training.presets import PRESETS as PRESETS
    from scr.training.presets import GraphFacts as GraphFacts
    from scr.training.presets._auto import Choice as Choice
    from scr.training.presets._auto import choose as choose
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

"""How good predictions are: measures of labels and probabilities, each defined once.

Nothing here imports torch, so that training and reports share the definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.metrics._calibration import ReliabilityCurve as ReliabilityCurve
    from scr.metrics._calibration import reliability_curve as reliability_curve
    from scr.metrics._choice import ACCURACY as ACCURACY
    from scr.metrics._choice import METRICS as METRICS
    from scr.metrics._choice import Metric as Metric
    from scr.metrics._choice import MetricName as MetricName
    from scr.metrics._choice import effective_nodes as effective_nodes
    from scr.metrics._choice import metric_of as metric_of
    from scr.metrics._classification import MetricsInParts as MetricsInParts
    from scr.metrics._classification import classification_metrics as classification_metrics
    from scr.metrics._classification import confusion_matrix as confusion_matrix
    from scr.metrics._classification import per_class_table as per_class_table
    from scr.metrics._intervals import share_interval as share_interval
    from scr.metrics._ranking import roc_auc as roc_auc
    from scr.metrics._targets import target_metrics as target_metrics
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

"""A line of text per evaluated epoch, and several callbacks as one."""

from __future__ import annotations

import sys
from collections.abc import Callable

from scr.metrics import ACCURACY, METRICS, MetricName
from scr.training._records import EpochRecord

OnEpoch = Callable[[EpochRecord], None]


class EpochLines:
    """Writes a line to standard output after each epoch with an evaluation."""

    def __init__(self, epochs: int, metric: MetricName = "accuracy") -> None:
        self.epochs, self.metric = epochs, METRICS[metric]

    def __call__(self, record: EpochRecord) -> None:
        """Write the line of an epoch, if validation nodes were evaluated after it."""
        value = record.valid_accuracy if self.metric is ACCURACY else record.valid_metric
        if value is None:
            return
        sys.stdout.write(
            f"epoch {record.epoch} of {self.epochs}: "
            f"loss {record.supervised_loss:.4f} + {record.consistency_loss:.4f}, "
            f"valid {self.metric.title} {self.metric.shown(value)}\n"
        )
        sys.stdout.flush()


def in_turn(*callbacks: OnEpoch | None) -> OnEpoch:
    """One callback that calls several, those that are none left out."""
    given = [each for each in callbacks if each is not None]

    def on_epoch(record: EpochRecord) -> None:
        for each in given:
            each(record)

    return on_epoch

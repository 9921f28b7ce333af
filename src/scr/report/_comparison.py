"""Does a regularizer help? Means over seeds, and differences paired by seed.

Two runs with the same seed share the split, the batches' order and the initial weights, so their
difference varies far less than either accuracy. The question is therefore asked of the paired
differences: their mean, with a 95% t-interval. An interval on one side of zero is a clear
difference; everything else is said to be no clear difference, however good the mean looks.

Reads the `runs` of `compare.json`, returns its `rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from scr.errors import RunError
from scr.metrics import ACCURACY, METRICS, Metric, metric_of
from scr.report._formatting import number_or_none

BASE = "none"
"""The regularizer that the others are compared to."""

BySeed = Mapping[int, Mapping[str, Any]]
"""Records of runs, one for each seed."""

BETTER, WORSE, UNCLEAR = "better", "worse", "no clear difference"
LEVEL = 0.95
"""Coverage of all intervals in a report."""
_NO_WIDTH = 1e-9
"""Accuracies that differ at all differ by more, whatever the number of nodes."""


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference with its interval, which is None when it cannot be estimated."""

    mean: float
    low: float | None
    high: float | None
    pairs: int
    higher_is_better: bool = True

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None:
            return "one seed: no interval"
        if self.pairs == 2 and self.high - self.low < _NO_WIDTH:
            return UNCLEAR  # two differences that happen to be equal tell nothing of their spread
        if self.low > 0:
            return BETTER if self.higher_is_better else WORSE
        if self.high < 0:
            return WORSE if self.higher_is_better else BETTER
        return UNCLEAR


class Means(TypedDict):
    """Accuracies in 0..1 over the seeds, with sample deviations; None where not measured.

    Where another metric counts, it stands in their place.
    """

    n: int
    seeds: list[int]
    valid_mean: float | None
    valid_std: float | None
    test_mean: float | None
    test_std: float | None


def means_of(runs: BySeed, kind: Literal["accuracy", "metric"] = "accuracy") -> Means:
    (valid_mean, valid_std), (test_mean, test_std) = (
        mean_and_std(runs, f"{split}_{kind}") for split in ("valid", "test")
    )
    return Means(
        n=len(runs), seeds=list(runs), valid_mean=valid_mean, valid_std=valid_std,
        test_mean=test_mean, test_std=test_std,
    )  # fmt: skip


def mean_and_std(runs: BySeed, measure: str) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation (n - 1) of what the runs have of a measure."""
    numbers = [number_or_none(run.get(measure)) for run in runs.values()]
    values = [value for value in numbers if value is not None]
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def pairs_by_seed(runs: BySeed, others: BySeed, measure: str) -> list[tuple[float, float]]:
    """A measure of runs and others for the seeds that both have it for."""
    return [
        (ours, theirs)
        for seed, run in runs.items()
        if seed in others
        and (ours := number_or_none(run.get(measure))) is not None
        and (theirs := number_or_none(others[seed].get(measure))) is not None
    ]


def difference_by_seed(runs: BySeed, others: BySeed, measure: str) -> PairedDifference | None:
    """Mean of runs minus others over the seeds that both have; none without a common seed."""
    pairs = pairs_by_seed(runs, others, measure)
    return paired_difference(*zip(*pairs, strict=True)) if pairs else None


def paired_difference(values: Sequence[float], base_values: Sequence[float]) -> PairedDifference:
    """Mean of values - base_values with a t-interval; entry i of both must share a seed."""
    return t_interval(np.subtract(values, base_values, dtype=np.float64))


def t_interval(differences: NDArray[np.float64], level: float = LEVEL) -> PairedDifference:
    """Interval of the mean of one sample; none for a single value."""
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return PairedDifference(mean, None, None, count)
    error = float(differences.std(ddof=1)) / count**0.5
    half = _t_quantile(level, count - 1) * error
    return PairedDifference(mean, mean - half, mean + half, count)


def stratified_interval(
    samples: Sequence[NDArray[np.float64]], level: float = LEVEL
) -> PairedDifference:
    """Interval of the mean of the samples' means, their spread estimated within each sample."""
    mean = float(np.mean([sample.mean() for sample in samples]))
    count = sum(len(sample) for sample in samples)
    if any(len(sample) < 2 for sample in samples):
        return PairedDifference(mean, None, None, count)
    variances = np.array([sample.var(ddof=1) / len(sample) for sample in samples])
    if not variances.any():
        return PairedDifference(mean, mean, mean, count)
    shares = variances**2 / np.array([len(sample) - 1 for sample in samples])
    freedom = float(variances.sum() ** 2 / shares.sum())
    half = _t_quantile(level, freedom) * float(np.sqrt(variances.sum())) / len(samples)
    return PairedDifference(mean, mean - half, mean + half, count)


def _t_quantile(level: float, freedom: float) -> float:
    from scipy.special import stdtrit  # slow to import, and only comparisons need it

    # The same as scipy.stats.t.ppf, whose import is slower still.
    return float(stdtrit(freedom, 0.5 + level / 2))


Run = Mapping[str, Any]
"""encoder, regularizer, seed, valid_accuracy, test_accuracy, train_seconds; optional: graph and
balanced_accuracy (on the test nodes), consistency (what the regularizer did); where another metric
than accuracy counts: metric, valid_metric, test_metric."""


class ComparisonRow(Means):
    """One encoder with one regularizer: all accuracies are in 0..1, None where not measured."""

    graph: str | None
    encoder: str
    regularizer: str
    balanced_mean: float | None
    balanced_std: float | None
    train_seconds: float | None
    measure: str
    pairs: int
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    balanced_difference: float | None
    balanced_difference_low: float | None
    balanced_difference_high: float | None
    verdict: str
    inactive: int
    """Runs in whose result the regularizer had no part."""
    metric: NotRequired[str]
    """What counts, where it is not accuracy; then accuracies on test nodes stand beside it."""
    accuracy_mean: NotRequired[float | None]
    accuracy_std: NotRequired[float | None]
    accuracy_difference: NotRequired[float | None]
    accuracy_difference_low: NotRequired[float | None]
    accuracy_difference_high: NotRequired[float | None]


def compare_runs(runs: Sequence[Run]) -> list[ComparisonRow]:
    """Summarize runs per graph, encoder and regularizer, in order of first appearance.

    The difference is in test accuracy, or in validation accuracy where a run has no test nodes;
    `measure` says which. Where another metric counts in all runs, it is in that.
    """
    groups: dict[tuple[str | None, str, str], dict[int, Run]] = {}
    for run in runs:
        key = (run.get("graph"), str(run["encoder"]), str(run["regularizer"]))
        by_seed = groups.setdefault(key, {})
        if run["seed"] in by_seed:
            raise RunError(
                f"Two runs of {key[1]} with {key[2]} have seed {run['seed']}; expected one each",
                hint="remove one of them, or give each run its own seed",
            )
        by_seed[run["seed"]] = run
    # Stable: the encoders keep their order, and the base comes first within each.
    order = list(dict.fromkeys(key[:2] for key in groups))
    ordered = sorted(groups, key=lambda key: (order.index(key[:2]), key[2] != BASE))
    return [_row(key, groups[key], groups.get((*key[:2], BASE), {})) for key in ordered]


def pooled_difference(
    runs: Sequence[Run],
    encoder: str,
    regularizer: str,
    *,
    measure: str = "test_accuracy",
    unit: Literal["seeds", "graphs"] = "seeds",
) -> PairedDifference | None:
    """Mean paired difference over several graphs, each graph counting the same.

    Args:
        runs: Runs with a `graph`; graphs without a seed in common with the base are left out.
        encoder: Its name.
        regularizer: The one to compare with the base.
        measure: Key of the runs to take differences of.
        unit: What the interval is over. `seeds`: would it help on these graphs again? Within-graph
            variances add up, degrees of freedom by Welch and Satterthwaite. `graphs`: would it
            help on another graph like these? One mean per graph, a much wider interval.

    Returns:
        None if no graph has a pair. `pairs` counts pairs of runs, or graphs.
    """
    by_graph: dict[str | None, dict[str, dict[int, Run]]] = {}
    for run in runs:
        if run["encoder"] == encoder:
            by_name = by_graph.setdefault(run.get("graph"), {})
            by_name.setdefault(run["regularizer"], {})[run["seed"]] = run
    samples = [
        np.array([value - base_value for value, base_value in pairs])
        for by_name in by_graph.values()
        if (pairs := pairs_by_seed(by_name.get(regularizer, {}), by_name.get(BASE, {}), measure))
    ]
    if not samples:
        return None
    if unit == "graphs":
        return t_interval(np.array([sample.mean() for sample in samples]))
    return stratified_interval(samples)


def _row(
    key: tuple[str | None, str, str], runs: dict[int, Run], base_runs: dict[int, Run]
) -> ComparisonRow:
    graph, encoder, regularizer = key
    everything = [*runs.values(), *base_runs.values()]
    metric = metric_of_all(everything)
    kind: Literal["accuracy", "metric"] = "accuracy" if metric is ACCURACY else "metric"
    has_test = all(run.get(f"test_{kind}") is not None for run in everything)
    measure = f"test_{kind}" if has_test else f"valid_{kind}"
    difference = balanced = accuracy = None
    if regularizer != BASE:
        difference = difference_by_seed(runs, base_runs, measure)
        balanced = difference_by_seed(runs, base_runs, "balanced_accuracy")
        accuracy = difference_by_seed(runs, base_runs, "test_accuracy")
    if difference is not None:
        difference = replace(difference, higher_is_better=metric.higher_is_better)
    if difference is not None:
        verdict = difference.verdict
    else:
        verdict = "base" if regularizer == BASE else "no seed in common with the base"
    balanced_mean, balanced_std = mean_and_std(runs, "balanced_accuracy")
    terms = [term for run in runs.values() if (term := run.get("consistency")) is not None]
    means = means_of(runs, kind)
    row = ComparisonRow(
        graph=graph,
        encoder=encoder,
        regularizer=regularizer,
        n=means["n"],
        seeds=means["seeds"],
        valid_mean=means["valid_mean"],
        valid_std=means["valid_std"],
        test_mean=means["test_mean"],
        test_std=means["test_std"],
        balanced_mean=balanced_mean,
        balanced_std=balanced_std,
        train_seconds=mean_and_std(runs, "train_seconds")[0],
        measure=measure,
        pairs=difference.pairs if difference else 0,
        difference=difference.mean if difference else None,
        difference_low=difference.low if difference else None,
        difference_high=difference.high if difference else None,
        balanced_difference=balanced.mean if balanced else None,
        balanced_difference_low=balanced.low if balanced else None,
        balanced_difference_high=balanced.high if balanced else None,
        verdict=verdict,
        inactive=sum(not term["acted"] for term in terms),
    )
    if metric is not ACCURACY:
        row["metric"] = metric.name
        row["accuracy_mean"], row["accuracy_std"] = mean_and_std(runs, "test_accuracy")
        row["accuracy_difference"] = accuracy.mean if accuracy else None
        row["accuracy_difference_low"] = accuracy.low if accuracy else None
        row["accuracy_difference_high"] = accuracy.high if accuracy else None
    return row


def metric_of_all(records: Sequence[Mapping[str, Any]]) -> Metric:
    """The metric that counts in all runs or rows; accuracy where they differ."""
    metrics = {metric_of(record).name for record in records}
    return METRICS[metrics.pop()] if len(metrics) == 1 else ACCURACY


def best_on_validation(rows: Sequence[ComparisonRow]) -> ComparisonRow:
    """The row with the best mean on validation nodes, which each of them has."""
    sign = metric_of_all(rows).sign
    return max(rows, key=lambda row: sign * (row["valid_mean"] or 0.0))

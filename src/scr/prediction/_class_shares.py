"""How common each class is among unlabeled nodes, and predictions that take it into account.

Training labels are often the same number of each class, whatever the graph is like. Then a model
has learned classes that are equally likely. If only the shares of the classes differ between
labeled and unlabeled nodes (label shift), the shares among unlabeled nodes can be estimated without
a label of theirs, and predictions can be reweighted by Bayes' rule. Whether that pays is checked on
validation nodes, which count as much as their class is common.

Papers: Saerens et al. 2002, "Adjusting the outputs of a classifier to new a priori probabilities",
Neural Computation 14 (EM); Lipton et al. 2018, "Detecting and correcting for label shift with black
box predictors", arXiv:1802.03916 (BBSE).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scr.errors import ConfigError, GraphError

Shares = NDArray[np.float64]
"""One number per class, adding up to 1."""
SharesEstimate = Literal["none", "em", "bbse"]
"""By which shares predictions are corrected; `none`: they stay as they are."""
EM_STEPS, EM_CHANGE = 500, 1e-6
"""EM ends after so many steps, or when no share changes by more."""
SUM_WEIGHT = 1e3
"""Of the equation that shares add up to 1; the others have entries of at most 1."""
RESAMPLES = 100
"""Of the validation nodes, for the error of a gain: it is then known to some 7 percent."""
CERTAIN = 2.0
"""Standard errors that a gain must exceed to be called one."""


def label_shares(labels: ArrayLike, classes: int) -> Shares:
    """Share of each class among known labels.

    >>> label_shares([0, 0, 0, 2], 3).tolist()
    [0.75, 0.0, 0.25]
    """
    counts = np.bincount(np.asarray(labels, dtype=np.int64), minlength=classes)
    return np.asarray(counts / max(counts.sum(), 1), dtype=np.float64)


def em_shares(
    probabilities: ArrayLike,
    source_shares: ArrayLike,
    *,
    steps: int = EM_STEPS,
) -> Shares:
    r"""Shares of the classes under which predictions are likeliest, by EM.

    Equation: Saerens et al. 2002 (docs/equations.md#em-shares)
        q_c <- mean_i [ (q_c / p_c) P_ic / sum_c' (q_c' / p_c') P_ic' ]

    Each step makes the predictions likelier, or changes nothing. It relies on probabilities that
    mean what they say: a model that is too sure of itself misleads it.

    Args:
        probabilities: P, predictions for nodes without labels. Shape (nodes, classes).
        source_shares: p, shares of the classes in training; a class without training labels keeps
            a share of 0.
        steps: At most so many.
    """
    predicted, source = _predictions(probabilities), _shares(source_shares)
    shares = source.copy()
    for _ in range(steps):
        ratio = _ratio(source, shares)
        likelihood = np.maximum(predicted @ ratio, np.finfo(np.float64).tiny)
        updated = ratio * (predicted.T @ (1 / likelihood)) / len(predicted)
        updated /= updated.sum()
        change = np.abs(updated - shares).max()
        shares = updated
        if change < EM_CHANGE:
            break
    return shares


def bbse_shares(
    valid_probabilities: ArrayLike, valid_labels: ArrayLike, probabilities: ArrayLike
) -> Shares:
    r"""Shares of the classes that explain the mean prediction, by a confusion matrix (BBSE).

    Equation: Lipton et al. 2018, section 4 (docs/equations.md#bbse-shares)
        min_q || C q - mean_i P_i ||^2,  q >= 0,  sum_c q_c = 1

    with C_cd the mean probability of class c over validation nodes of class d. It holds however
    wrong the model is, as long as it is wrong alike on both kinds of nodes; a class without
    validation nodes counts as always predicted right.

    Args:
        valid_probabilities: Shape (validation nodes, classes).
        valid_labels: Shape (validation nodes,).
        probabilities: P, predictions for nodes without labels. Shape (nodes, classes).
    """
    valid, labels = _predictions(valid_probabilities), np.asarray(valid_labels, dtype=np.int64)
    mean = _predictions(probabilities).mean(axis=0)
    return _simplex_solution(_confusion(valid, labels), mean)


def _confusion(valid: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean prediction for each class, in columns."""
    present, counts = np.unique(labels, return_counts=True)
    confusion = np.eye(valid.shape[1])
    starts = np.cumsum(counts) - counts
    ordered = valid[np.argsort(labels, kind="stable")]
    confusion[:, present] = np.add.reduceat(ordered, starts).T / counts
    return confusion


def _simplex_solution(matrix: NDArray[np.float64], target: Shares) -> Shares:
    """The q on the simplex with the least || matrix q - target ||."""
    from scipy.optimize import nnls

    one = np.full((1, matrix.shape[1]), SUM_WEIGHT)
    solution = nnls(np.vstack([matrix, one]), np.append(target, SUM_WEIGHT))[0]
    return np.asarray(solution / solution.sum(), dtype=np.float64)


def reweighted(
    probabilities: ArrayLike, source_shares: ArrayLike, target_shares: ArrayLike
) -> NDArray[Any]:
    r"""Predictions for nodes whose classes are as common as `target_shares` say.

    Equation: Saerens et al. 2002, equation 2.4 (docs/equations.md#reweighted)
        P'_ic = (q_c / p_c) P_ic / sum_c' (q_c' / p_c') P_ic'

    Args:
        probabilities: P. Shape (nodes, classes); the result has its type.
        source_shares: p, shares of the classes in training.
        target_shares: q, shares of the classes among the nodes.
    """
    predicted = np.asarray(probabilities)
    ratio = _ratio(_shares(source_shares), _shares(target_shares)).astype(predicted.dtype)
    weighted = predicted * ratio
    total = weighted.sum(axis=1, keepdims=True)
    # A node of a class that no node should have stays as it was predicted.
    return np.where(total > 0, weighted / np.where(total > 0, total, 1), predicted)


@dataclass(frozen=True)
class CorrectionGain:
    """What a correction would change, by validation nodes; numbers in 0..1."""

    accuracy: float
    """Accuracy with it minus accuracy without, on nodes with the estimated shares."""
    error: float
    """Two standard errors of that, over resampled validation nodes."""
    balanced_accuracy: float
    """The same of the mean recall of the classes, which does not depend on shares."""

    @property
    def verdict(self) -> Literal["helps", "harms", "unclear"]:
        """Whether accuracy would rise or fall beyond the noise of the validation nodes."""
        if abs(self.accuracy) <= self.error:
            return "unclear"
        return "helps" if self.accuracy > 0 else "harms"


def correction_gain(
    valid_probabilities: ArrayLike,
    valid_labels: ArrayLike,
    probabilities: ArrayLike,
    source_shares: ArrayLike,
    target_shares: ArrayLike,
    *,
    seed: int = 0,
) -> CorrectionGain:
    """Whether reweighting to some shares would help, by validation nodes that stand for the others.

    Validation nodes of a class count as much as `bbse_shares` finds the class common, whoever
    estimated the shares that are tried: an estimate must not be its own judge. The error includes
    that of these weights, as they are estimated again from each resample.

    Args:
        valid_probabilities: Shape (validation nodes, classes).
        valid_labels: Shape (validation nodes,).
        probabilities: Predictions for nodes without labels. Shape (nodes, classes).
        source_shares: Shares of the classes in training.
        target_shares: Shares that predictions would be reweighted to.
        seed: Decides the resamples.
    """
    valid, labels = _predictions(valid_probabilities), np.asarray(valid_labels, dtype=np.int64)
    mean = _predictions(probabilities).mean(axis=0)
    after = reweighted(valid, source_shares, target_shares).argmax(axis=1) == labels
    change = after.astype(np.float64) - (valid.argmax(axis=1) == labels)
    members = [np.flatnonzero(labels == number) for number in np.unique(labels)]
    generator = np.random.default_rng(seed)

    def gain(chosen: NDArray[np.int64]) -> float:
        weights = _simplex_solution(_confusion(valid[chosen], labels[chosen]), mean)
        recalls = _class_means(change[chosen], labels[chosen], len(weights))
        return float(weights @ recalls)

    resampled = [
        gain(np.concatenate([generator.choice(each, len(each)) for each in members]))
        for _ in range(RESAMPLES)
    ]
    by_class = [float(change[each].mean()) for each in members]
    error = CERTAIN * float(np.std(resampled, ddof=1))
    return CorrectionGain(gain(np.arange(len(labels))), error, float(np.mean(by_class)))


def _class_means(
    values: NDArray[np.float64], labels: NDArray[np.int64], classes: int
) -> NDArray[np.float64]:
    """Mean of the values of each class, 0 where there are none."""
    counts = np.bincount(labels, minlength=classes)
    return np.bincount(labels, values, classes) / np.maximum(counts, 1)


@dataclass(frozen=True, eq=False)
class ClassShares:
    """Shares of the classes in training and, by several estimates, among unlabeled nodes."""

    nodes: int
    """Unlabeled nodes that were looked at."""
    training: Shares
    predicted: Shares
    """Mean prediction for unlabeled nodes."""
    em: Shares
    bbse: Shares | None
    """None without validation nodes."""
    gains: dict[str, CorrectionGain]
    """By the name of the estimate; none without validation nodes."""

    @classmethod
    def estimated(
        cls,
        training: Shares,
        probabilities: NDArray[Any],
        valid_probabilities: NDArray[Any],
        valid_labels: NDArray[Any],
        *,
        check: bool = True,
    ) -> ClassShares:
        """Estimate shares; `check` also says on validation nodes whether corrections would help."""
        em, bbse, gains = em_shares(probabilities, training), None, {}
        if len(valid_labels):
            bbse = bbse_shares(valid_probabilities, valid_labels, probabilities)
            for name, target in {"em": em, "bbse": bbse}.items() if check else ():
                gains[name] = correction_gain(
                    valid_probabilities, valid_labels, probabilities, training, target
                )
        predicted = _predictions(probabilities).mean(axis=0)
        return cls(len(probabilities), training, predicted, em, bbse, gains)

    def corrected(
        self, probabilities: NDArray[np.float32], estimate: SharesEstimate
    ) -> NDArray[np.float32]:
        """Predictions reweighted to an estimate of the shares."""
        if estimate == "none":
            return probabilities
        target = self.em if estimate == "em" else self.bbse
        if target is None:
            raise ConfigError(
                "class_shares", estimate, "`em` or `none` where there are no validation nodes"
            )
        return reweighted(probabilities, self.training, target)

    def tables(self) -> dict[str, Any]:
        """The field `class_shares` of `metrics.json`; shares are in the order of the classes."""
        return {
            "nodes": self.nodes,
            "training": self.training.tolist(),
            "predicted": self.predicted.tolist(),
            "em": self.em.tolist(),
            "bbse": None if self.bbse is None else self.bbse.tolist(),
            "gains": {
                name: {**asdict(gain), "verdict": gain.verdict} for name, gain in self.gains.items()
            },
        }


def check_estimate(name: str) -> SharesEstimate:
    """The name of an estimate, as a user gives it."""
    known = get_args(SharesEstimate)
    if name not in known:
        raise ConfigError("class_shares", name, f"one of {', '.join(known)}")
    return name  # type: ignore[return-value]


def _ratio(source: Shares, target: Shares) -> Shares:
    """By what each class becomes more common; 0 for one that training did not have."""
    return np.divide(target, source, out=np.zeros_like(target), where=source > 0)


def _predictions(probabilities: ArrayLike) -> NDArray[np.float64]:
    predicted = np.asarray(probabilities, dtype=np.float64)
    if predicted.ndim != 2 or len(predicted) == 0 or not np.isfinite(predicted).all():
        raise GraphError(
            f"The probabilities have shape {predicted.shape}; expected finite numbers of shape "
            "(nodes, classes) for at least one node"
        )
    return predicted


def _shares(shares: ArrayLike) -> Shares:
    given = np.asarray(shares, dtype=np.float64)
    if given.ndim != 1 or given.min(initial=0) < 0 or not np.isclose(given.sum(), 1, atol=1e-4):
        raise GraphError(
            f"The shares of the classes are {given.tolist()}; expected numbers of at least 0 that "
            "add up to 1"
        )
    return given

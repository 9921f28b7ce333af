"""What the service answers, apart from HTTP: known nodes from memory, new nodes by computing."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scr.errors import SCRError
from scr.prediction import NewNodePredictor, Predictor, UnknownIdsError
from scr.prediction.calibration import prediction_sets
from scr.serving._requests import NOT_FOUND, UNPROCESSABLE, Request, RequestError, as_float
from scr.tables import Preparation

FEATURES = "features"
"""The field of a new node with its numbers, where the run was not made from a table."""


@dataclass(frozen=True)
class Limits:
    """How much a request may ask for."""

    nodes: int = 1_000
    """In a request."""
    edges: int = 100_000
    """In a request."""
    bytes: int = 8 * 2**20
    """Of a request."""


class Service:
    """A run that answers; probabilities of known nodes are computed once, here."""

    def __init__(
        self, predictor: Predictor, *, limits: Limits | None = None, coverage: float = 0.9
    ) -> None:
        self.limits, self.coverage = limits or Limits(), coverage
        self._predictor, self._new = predictor, NewNodePredictor(predictor)
        self._lock = threading.Lock()
        """New nodes are computed one request at a time: each takes all threads by itself."""
        kept, _ = predictor.answers(None, None)
        self._kept = kept
        self._probabilities = predictor.probabilities(kept, None)
        self._no_sets: str | None = None
        try:
            self._set_limits: NDArray[np.float64] | None = self._limits_of(coverage)
        except SCRError as error:
            self._set_limits, self._no_sets = None, error.message
        try:
            self._preparation: Preparation | None = self._new.preparation()
        except SCRError:
            self._preparation = None

    def describe(self) -> dict[str, Any]:
        """What the run is, and what a request may hold."""
        model, graph = self._predictor.model, self._predictor.graph
        origin = model.origin
        described: dict[str, Any] = {
            "run": origin.name if isinstance(origin, Path) else None,
            "graph": graph.name,
            "known_nodes": len(self._probabilities),
            "classes": list(model.class_names),
            "several_targets": model.multilabel,
            "encoder": model.recipe.encoder,
            "coverage": None if self._set_limits is None else self.coverage,
            "most_nodes": self.limits.nodes,
            "most_edges": self.limits.edges,
            "most_bytes": self.limits.bytes,
        }
        if self._preparation is not None:
            described["columns"] = {
                column.name: column.kind for column in self._preparation.columns
            }
        else:
            described["features"] = graph.num_features
        if self._no_sets is not None:
            described["no_sets"] = self._no_sets
        return described

    def answer(self, request: Request) -> dict[str, Any]:
        """The predictions of a request."""
        try:
            if request.nodes is None:
                return {"predictions": self._known(request)}
            return self._unknown(request, request.nodes)
        except UnknownIdsError as error:
            status = NOT_FOUND if request.nodes is None else UNPROCESSABLE
            raise RequestError(status, error.message) from None
        except SCRError as error:
            raise RequestError(UNPROCESSABLE, error.message, error.hint) from None

    def _known(self, request: Request) -> list[dict[str, Any]]:
        assert request.ids is not None
        numbers = self._new.known.numbers(request.ids)
        places = numbers
        if self._kept is not None:
            places = np.minimum(np.searchsorted(self._kept, numbers), len(self._kept) - 1)
            missing = np.flatnonzero(self._kept[places] != numbers)
            if len(missing):
                raise RequestError(
                    NOT_FOUND, f"The run has no hops of the node `{request.ids[missing[0]]}`; "
                    "expected one of those that hops were kept for",
                )  # fmt: skip
        ids = self._new.known.ids_of(numbers).tolist()
        return self._described(ids, self._probabilities[places], request)

    def _unknown(self, request: Request, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        edges = request.edges or []
        weights = None
        if any(len(edge) == 3 for edge in edges):
            weights = [edge[2] if len(edge) == 3 else 1.0 for edge in edges]
        features, notes = self._features(nodes)
        # As objects: in an array of text, every id would take the room of the longest.
        pairs = np.array([[str(end) for end in edge[:2]] for edge in edges], dtype=object)
        with self._lock:
            made = self._new.predict(
                features, pairs, ids=[node["id"] for node in nodes], weights=weights
            )
        described = self._described(made.ids.tolist(), made.probabilities, request)
        notes = [*notes, *made.notes]
        return {"predictions": described, **({"notes": notes} if notes else {})}

    def _features(self, nodes: list[dict[str, Any]]) -> tuple[Any, list[str]]:
        """Features of new nodes, and what should be known of them."""
        if self._preparation is None:
            return self._numbers(nodes), []
        table = _table(nodes)
        unused = ", ".join(f"`{name[:60]}`" for name in self._preparation.unused(table)[:10])
        notes = [f"Columns that the run does not know were ignored: {unused}"] if unused else []
        return self._preparation.transform(table), notes

    def _numbers(self, nodes: list[dict[str, Any]]) -> NDArray[np.float32] | None:
        columns = self._predictor.graph.num_features
        matrix = np.zeros((len(nodes), columns), np.float32)
        for number, node in enumerate(nodes):
            unknown = [name for name in node if name not in ("id", FEATURES)]
            row: Any = node.get(FEATURES, [] if columns == 0 else None)
            is_row = isinstance(row, list) and all(
                isinstance(each, (int, float)) and not isinstance(each, bool) for each in row
            )
            if unknown or not is_row or len(row) != columns:
                raise RequestError(
                    UNPROCESSABLE, f"Node {number} is not described as the run's nodes are; "
                    f"expected `id` and `{FEATURES}`, a list of {columns:,} numbers",
                )  # fmt: skip
            try:
                matrix[number] = row
            except OverflowError:
                matrix[number] = math.inf  # refused as all that is not finite
        return matrix if columns else None

    def _limits_of(self, coverage: float) -> NDArray[np.float64]:
        return self._predictor.set_limits(coverage, per_class=False)

    def _described(
        self, ids: list[Any], probabilities: NDArray[np.float32], request: Request
    ) -> list[dict[str, Any]]:
        model, limits = self._predictor.model, self._set_limits
        if request.coverage is not None:
            limits = self._limits_of(request.coverage)
        names = model.class_names
        sets = None if limits is None else prediction_sets(probabilities, limits)
        described = []
        for row, (node, shares) in enumerate(zip(ids, probabilities.tolist(), strict=True)):
            answer: dict[str, Any] = {"id": node}
            if model.multilabel:
                answer["classes"] = [names[at] for at, share in enumerate(shares) if share > 0.5]
            else:
                best = max(range(len(names)), key=shares.__getitem__)
                answer |= {"class": names[best], "probability": shares[best]}
            if sets is not None:
                answer["set"] = [names[at] for at in np.flatnonzero(sets[row])]
            if request.probabilities or model.multilabel:
                answer["probabilities"] = dict(zip(names, shares, strict=True))
            described.append(answer)
        return described


def _table(nodes: list[dict[str, Any]]) -> pa.Table:
    """New nodes as a table, without their ids; a value that is not given is missing."""
    names = {name: None for node in nodes for name in node if name != "id"}
    columns = {}
    for name in names:
        values = [node.get(name) for node in nodes]
        kinds = {type(value) for value in values if value is not None}
        if not kinds <= {str, int, float, bool}:
            raise RequestError(
                UNPROCESSABLE, f"The column `{name[:60]}` holds a list or an object; expected "
                "texts, numbers, true or false, or null",
            )  # fmt: skip
        if not all(
            math.isfinite(as_float(value)) for value in values if isinstance(value, (int, float))
        ):
            raise RequestError(
                UNPROCESSABLE, f"The column `{name[:60]}` holds a number that is not finite; "
                "expected finite ones, or null",
            )  # fmt: skip
        if len(kinds) > 1 and not kinds <= {int, float}:
            values = [None if value is None else str(value) for value in values]
        if kinds and kinds <= {int, float}:
            values = [None if value is None else float(value) for value in values]
        columns[name] = pa.array(values)
    return pa.table(columns) if columns else pa.table({"id": [node["id"] for node in nodes]})

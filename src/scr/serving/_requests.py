"""What a request may say, read from JSON; what it may not is named in one sentence."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

BAD_REQUEST, NOT_FOUND, TOO_LARGE, UNPROCESSABLE, FAILED = 400, 404, 413, 422, 500
FIELDS = ("ids", "nodes", "edges", "probabilities", "coverage")
SHOWN_TEXT = 60
"""Characters of a request that a message repeats."""
LONGEST_MESSAGE = 400
LONGEST_ID = 256
"""Characters: in arrays of text, every id takes as much room as the longest."""
INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Controls, line ends and marks of direction: a message that repeats them is no longer one line,
or reads as another one in a terminal."""


class RequestError(Exception):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        self.status, self.hint = status, hint
        escaped = INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", message)
        self.message = escaped[:LONGEST_MESSAGE]
        super().__init__(message)

    def body(self) -> dict[str, str]:
        """What is sent."""
        hint = {} if self.hint is None else {"hint": self.hint}
        return {"error": self.message, **hint}


@dataclass(frozen=True)
class Request:
    """Known nodes, or new ones with edges."""

    ids: list[Any] | None = None
    nodes: list[dict[str, Any]] | None = None
    edges: list[list[Any]] | None = None
    """Two ids, and a weight where one was given."""
    probabilities: bool = False
    """Whether those of all classes are wanted."""
    coverage: float | None = None
    """Of prediction sets; none: the one of the service."""

    @classmethod
    def parse(cls, body: bytes, most_nodes: int, most_edges: int) -> Request:
        """Read the body of a request."""
        content = _read_json(body)
        if not isinstance(content, dict):
            _refuse(f"The request is {_kind(content)}; expected an object with `ids` or `nodes`")
        unknown = [name for name in content if name not in FIELDS]
        if unknown:
            _refuse(f"There is no field `{unknown[0][:SHOWN_TEXT]}`; expected {_and(FIELDS)}")
        if ("ids" in content) == ("nodes" in content):
            _refuse("The request has both or neither of `ids` and `nodes`; expected one of them")
        if "edges" in content and "nodes" not in content:
            _refuse("The request has `edges` without `nodes`; expected both")
        listed = content.get("ids", content.get("nodes"))
        name = "ids" if "ids" in content else "nodes"
        if not isinstance(listed, list) or not listed:
            _refuse(f"`{name}` is {_kind(listed)}; expected a list that is not empty")
        _check_count("names", listed, "nodes", most_nodes)
        edges = content.get("edges", [])
        if not isinstance(edges, list):
            _refuse(f"`edges` is {_kind(edges)}; expected a list of pairs of ids")
        _check_count("has", edges, "edges", most_edges)
        probabilities, coverage = content.get("probabilities", False), content.get("coverage")
        if not isinstance(probabilities, bool):
            _refuse(f"`probabilities` is {_kind(probabilities)}; expected true or false")
        if coverage is not None and not (_is_number(coverage) and 0 < coverage < 1):
            _refuse("`coverage` is no number between 0 and 1; expected one such as 0.9")
        if name == "ids":
            for each in listed:
                _check_id(each, "`ids`")
            return cls(ids=listed, probabilities=probabilities, coverage=coverage)
        return cls(
            nodes=_checked_nodes(listed), edges=_checked_edges(edges),
            probabilities=probabilities, coverage=coverage,
        )  # fmt: skip


def _read_json(body: bytes) -> Any:
    def refuse_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number of JSON")

    try:
        content = json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
        if b"\\u" in body:
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        reason = f"{error.msg} at {where}"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:  # of the encoding, too
        reasons = {
            UnicodeDecodeError: "it is not UTF-8",
            UnicodeEncodeError: "a text holds half of a character, a surrogate without another",
        }
        reason = reasons.get(type(error), str(error))
    raise RequestError(BAD_REQUEST, f"The request is not JSON: {reason[:200]}")


def _checked_nodes(nodes: list[Any]) -> list[dict[str, Any]]:
    for number, node in enumerate(nodes):
        if not isinstance(node, dict) or "id" not in node:
            _refuse(f"Node {number} of `nodes` has no `id`; expected an object with one")
        _check_id(node["id"], f"The id of node {number}")
    return nodes


def _checked_edges(edges: list[Any]) -> list[list[Any]]:
    for number, edge in enumerate(edges):
        if not isinstance(edge, list) or len(edge) not in (2, 3):
            _refuse(f"Edge {number} is no pair of ids; expected [id, id] or [id, id, weight]")
        for each in edge[:2]:
            _check_id(each, f"An end of edge {number}")
        if len(edge) == 3 and not (_is_number(edge[2]) and 0 <= as_float(edge[2]) < math.inf):
            _refuse(f"The weight of edge {number} is no finite number from 0 on; expected one")
    return edges


def _check_id(value: Any, what: str) -> None:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        _refuse(f"{what} has {_kind(value)}; expected a text or a whole number")
    length = len(str(value))
    if length > LONGEST_ID:
        _refuse(f"{what} has {length:,} characters; expected at most {LONGEST_ID}")


def _check_count(verb: str, listed: list[Any], what: str, most: int) -> None:
    if len(listed) > most:
        message = f"The request {verb} {len(listed):,} {what}; expected at most {most:,}"
        raise RequestError(TOO_LARGE, message, "ask in several requests")


def as_float(value: float) -> float:
    """A number as it is computed with; infinite if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds = {dict: "an object", list: "a list", str: "a text", int: "a number", float: "a number"}
    if value == []:
        return "an empty list"
    return kinds.get(type(value), "null")


def _and(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _refuse(message: str) -> NoReturn:
    raise RequestError(UNPROCESSABLE, message)

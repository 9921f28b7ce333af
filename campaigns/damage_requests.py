"""Hostile requests to `scr serve`, each made from a seed alone.

A service must answer every one of them with 2xx or 4xx and one sentence, without a traceback or a
path of the machine, and answer the next good request as it did before.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

HOSTILE_TEXTS = (
    "<script>alert(1)</script>", "</title>", '"><img src=x onerror=alert(1)>', "=cmd()", "+1",
    "-1+1", "@SUM(A1)", "\t=1", "]]>", "{{7*7}}", "{% raw %}", "[/x]", "[bold]x", "\u202eabc\u202c",
    "a\x00b", "line\nbreak", "carriage\rreturn", "../../etc/passwd", "%s%n", "${x}", "", " ",
    "a" * 300, "\N{GRINNING FACE}", "e\u0301", "\ufeff", "\ud800", "None", "nan", "-0", "1e5",
)  # fmt: skip
"""Names that mean something to browsers, spreadsheets, templates, terminals or parsers."""
HOSTILE_NUMBERS = (
    0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0, 1e308, 1e-320, 3.9,
)  # fmt: skip
RAW_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E+999999999", "9" * 5000)
"""As they may stand in a body; not all of them are JSON."""
MACHINE = re.compile(r"Traceback|File \"|/(?:home|tmp|work|usr|root|var)/|\.py\b|0x[0-9a-f]{6,}")
"""What no answer may say: it tells of the machine, not of the request."""
LONGEST_ANSWER = 2_000


@dataclass(frozen=True)
class HostileRequest:
    """What is sent."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """What a request must know of a service to get far."""

    known: list[Any]
    """Ids."""
    features: int | tuple[str, ...]
    """How many numbers describe a node, or the columns of its table."""
    most_bytes: int


def hostile_request(seed: int, target: Target) -> HostileRequest:
    """The request of a seed."""
    rng = random.Random(seed)
    make = rng.choice(_KINDS)
    return make(_Maker(rng, target))


class _Maker:
    def __init__(self, rng: random.Random, target: Target) -> None:
        self.rng, self.features = rng, target.features
        self.known, self.most_bytes = target.known, target.most_bytes

    def value(self, depth: int = 0) -> Any:
        """Any value of JSON."""
        kind = self.rng.randrange(9 if depth < 3 else 6)
        if kind == 0:
            return self.rng.choice([None, True, False])
        if kind in (1, 2):
            return self.rng.choice(HOSTILE_NUMBERS)
        if kind in (3, 4):
            return self.rng.choice(HOSTILE_TEXTS)
        if kind == 5:
            return self.rng.choice(self.known)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(4))]
        return {self.text(): self.value(depth + 1) for _ in range(self.rng.randrange(4))}

    def text(self) -> str:
        """A name of a field, or any text."""
        names = (
            "ids",
            "nodes",
            "edges",
            "probabilities",
            "coverage",
            "id",
            "features",
            "__proto__",
        )
        return self.rng.choice([*names, *HOSTILE_TEXTS])

    def new_node(self) -> dict[str, Any]:
        """A node that the service does not know, mostly as it must be described."""
        rng = self.rng
        node: dict[str, Any] = {"id": rng.choice([*HOSTILE_TEXTS, "new", 7, 10**6])}
        if isinstance(self.features, tuple):
            node |= {
                name: self.value() if rng.random() < 0.2 else rng.choice([0.5, "red"])
                for name in self.features
            }
        else:
            node["features"] = [
                rng.choice(HOSTILE_NUMBERS) if rng.random() < 0.1 else rng.random()
                for _ in range(self.features + rng.choice([0, 0, 0, 0, -1, 1]))
            ]
        if rng.random() < 0.2:
            node[self.text()] = self.value()
        if rng.random() < 0.1:
            node["features"] = self.value()
        return node

    def asked(self) -> dict[str, Any]:
        """A request that is good, or nearly."""
        rng = self.rng
        if rng.random() < 0.5:
            asked: dict[str, Any] = {"ids": rng.choices(self.known, k=rng.randrange(1, 4))}
        else:
            nodes = [self.new_node() for _ in range(rng.randrange(1, 4))]
            ends = [*self.known, *[node["id"] for node in nodes]]
            edges = [rng.choices(ends, k=2) for _ in range(rng.randrange(5))]
            if rng.random() < 0.3:
                edges.append([*rng.choices(ends, k=2), rng.choice(HOSTILE_NUMBERS)])
            asked = {"nodes": nodes, "edges": edges}
        for _ in range(rng.randrange(3)):
            asked[self.text()] = self.value()
        return asked


def _encode(value: Any, rng: random.Random) -> bytes:
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode(
        rng.choice(["utf-8", "utf-8", "utf-8", "utf-16", "latin-1"]), "backslashreplace"
    )


def _post(body: bytes, headers: dict[str, str] | None = None) -> HostileRequest:
    return HostileRequest("POST", "/predict", body, headers or {})


def _random_bytes(make: _Maker) -> HostileRequest:
    return _post(make.rng.randbytes(make.rng.randrange(200)))


def _nearly_good(make: _Maker) -> HostileRequest:
    return _post(_encode(make.asked(), make.rng))


def _any_json(make: _Maker) -> HostileRequest:
    return _post(_encode(make.value(), make.rng))


def _flipped_bytes(make: _Maker) -> HostileRequest:
    body = bytearray(_encode(make.asked(), make.rng))
    for _ in range(make.rng.randrange(1, 5)):
        body[make.rng.randrange(len(body))] = make.rng.randrange(256)
    start = make.rng.randrange(len(body))
    return _post(bytes(body if make.rng.random() < 0.5 else body[:start]))


def _raw_number(make: _Maker) -> HostileRequest:
    number = make.rng.choice(RAW_NUMBERS)
    frame = make.rng.choice([
        '{"ids": [%s]}', '{"ids": ["a"], "coverage": %s}', '{"ids": ["a"], "probabilities": %s}',
        '{"nodes": [{"id": %s, "features": []}]}', '{"nodes": [{"id": "q", "features": [%s]}]}',
        '{"nodes": [{"id": "q", "price": %s}], "edges": []}',
        '{"nodes": [{"id": "q", "features": []}], "edges": [["q", "q", %s]]}', "%s", "[%s]",
    ])  # fmt: skip
    return _post((frame % number).encode())


def _deep(make: _Maker) -> HostileRequest:
    depth = make.rng.choice([50, 990, 1_100, 20_000, 400_000])
    opening, closing = make.rng.choice([("[", "]"), ('{"ids":', "}"), ('{"a":[', "]}")])
    ending = closing * depth if make.rng.random() < 0.5 else ""
    return _post((opening * depth + "1" + ending).encode()[: make.most_bytes])


def _many_ids(make: _Maker) -> HostileRequest:
    count = make.rng.choice([1_001, 100_000, 1_000_000])
    each = make.rng.choice(["1", '"a"', "[]", "{}", json.dumps(make.known[0])])
    return _post(('{"ids":[' + ",".join([each] * count) + "]}").encode())


def _many_edges(make: _Maker) -> HostileRequest:
    end = json.dumps(make.known[0])
    edges = ",".join([f'["q",{end}]'] * make.rng.choice([10, 1_000, 150_000]))
    return _post(f'{{"nodes":[{{"id":"q","features":[]}}],"edges":[{edges}]}}'.encode())


def _twice(make: _Maker) -> HostileRequest:
    first, second = json.dumps(make.asked())[1:-1], json.dumps(make.asked())[1:-1]
    return _post(f"{{{first}, {second}}}".encode(errors="backslashreplace"))


def _too_large(make: _Maker) -> HostileRequest:
    body = make.rng.choice([b" ", b"[", b"\x00", b'"']) * (make.most_bytes + 1)
    return _post(body)


def _wrong_headers(make: _Maker) -> HostileRequest:
    names = (
        "application/x-www-form-urlencoded", "multipart/form-data", "text/html; charset=utf-7",
        "application/json; charset=\"><script>", "a" * 5_000, "application/x-python-pickle",
    )  # fmt: skip
    headers = {"content-type": make.rng.choice(names)}
    more = {
        "content-encoding": "gzip", "x-forwarded-for": "<script>", "host": "a/../b",
        "accept": "\xff" * 30, "range": "bytes=0-1", "expect": "100-continue",
        "content-length": make.rng.choice(["-1", "1e9", "9" * 40, "\xb2", "+5"]),
    }  # fmt: skip
    for name in make.rng.sample(sorted(more), make.rng.randrange(3)):
        headers[name] = more[name]
    return _post(_encode(make.asked(), make.rng), headers)


def _other_method(make: _Maker) -> HostileRequest:
    methods = ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "predict")
    path = make.rng.choice(["/predict", "/", "/health"])
    return HostileRequest(make.rng.choice(methods), path, _encode(make.asked(), make.rng))


def _other_path(make: _Maker) -> HostileRequest:
    paths = (
        "/../../etc/passwd", "/predict/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//",
        "/static/../run.json", "/" + "a" * 60_000, "/predict?" + "a=b&" * 10_000, "/%00", "/%ff%fe",
        "/<script>alert(1)</script>", "/docs", "/openapi.json", "/predict/", "/PREDICT", "/;x",
        "/health/../predict", "/run.json", "/model.safetensors", "/.git/config", "/{{7*7}}",
    )  # fmt: skip
    return HostileRequest(make.rng.choice(["GET", "POST"]), make.rng.choice(paths), b"{}")


_KINDS: tuple[Callable[[_Maker], HostileRequest], ...] = (
    *(_nearly_good,) * 10, *(_any_json,) * 3, *(_flipped_bytes,) * 5, *(_raw_number,) * 3,
    *(_random_bytes,) * 2, *(_wrong_headers,) * 2, *(_other_method,) * 2, *(_other_path,) * 2,
    *(_twice,) * 2, _deep, _many_ids, _many_edges, _too_large,
)  # fmt: skip
"""As often as each is drawn: what reaches far into the service most often."""


def problem(status: int, answer: str, request: HostileRequest) -> str | None:
    """What is wrong with an answer; none: it is as promised."""
    if not (200 <= status < 300 or 400 <= status < 500):
        return f"status {status}"
    if status < 300 or request.method == "HEAD":
        return None
    sent = request.path + request.body[:10_000].decode("latin-1")
    said = MACHINE.search(answer)
    if said and said[0] not in sent:
        return f"the answer says {said[0]!r}"
    if len(answer) > LONGEST_ANSWER:
        return f"a refusal of {len(answer):,} characters"
    try:
        message = json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return "a refusal that is no JSON with `error`"
    if not message or "\n" in message or "\r" in message:
        return f"a refusal that is no line: {message[:80]!r}"
    return None

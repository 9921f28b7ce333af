"""Tables of `strangers.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
CHOSEN_ON = ("cora", "cora_ml", "acm", "pubmed", "amazon_photo", "uai", "blogcatalog", "actor")
OURS = ("scr", "base", "best")


def kind_of(method: str) -> str:
    """The kind of results that rows of a method belong to."""
    return "strangers" if method in OURS else "stranger_peers"


def read_rows(graph: str) -> list[dict[str, Any]]:
    """What was measured on a graph, ours and peers'."""
    rows: list[dict[str, Any]] = []
    for kind in ("strangers", "stranger_peers"):
        file = RESULTS / kind / f"{graph}.json"
        if file.exists():
            rows += json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def table_lines(labels: tuple[str, ...]) -> list[str]:
    return []


def verdict_lines() -> list[str]:
    return []

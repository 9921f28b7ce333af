"""Hostile requests to a service in this process, each followed by a good one."""

from __future__ import annotations

import importlib.util
import json
import resource
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from campaigns._campaign import Campaign, Result
from campaigns.damage_requests import Target, hostile_request, problem
from campaigns.damage_subjects import random_graph

SECONDS = 90
CORE_SECONDS = 15
"""Of a core; bodies are of at most 8 MiB."""
MOST_GROWTH = 400 << 20
"""Bytes by which one request may let the service grow: its body, at most 8 MiB, as objects."""
COLUMNS = ("size", "color")


class Requests(Campaign):
    """Requests that nobody who means well would send."""

    name = "requests"
    title = "hostile requests to `scr serve`, each followed by a good one"
    cases = 20_000
    minutes = 6.0
    seconds = 180.0
    good = frozenset({"answered", "refused"})

    def skip(self) -> str | None:
        """Whether FastAPI and its client are there."""
        missing = [name for name in ("fastapi", "httpx") if importlib.util.find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else None

    def prepare(self, shared: Path) -> None:
        """Train a run whose nodes have numbers, and one whose nodes are rows of a table."""
        import pyarrow as pa

        from scr.tables import TableOptions, read_table_graph

        self._train(shared / "numbers", random_graph())
        count = np.arange(48)
        nodes = pa.table({
            "id": count + 100, "size": count % 3 + count / 100,
            "color": np.array(["red", "blue"])[count % 2],
            "label": np.array(list("xyz"))[count % 3],
        })  # fmt: skip
        edges = pa.table({"source": count + 100, "target": (count + 3) % 48 + 100})
        read = read_table_graph(nodes, edges, TableOptions())
        run = self._train(shared / "columns", read.graph.with_split(count[:24], count[24:]))
        assert read.preparation is not None
        read.preparation.save(run)

    def start(self, shared: Path) -> None:
        """Open both runs, and note what they answer to a good request."""
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

        from scr.prediction import open_run
        from scr.serving import Service, make_app

        self.services = []
        for kind, known, features in (
            ("numbers", [f"n{number}" for number in range(60)], 6),
            ("columns", list(range(100, 148)), COLUMNS),
        ):
            service = Service(open_run(shared / kind / "run"))
            client = TestClient(make_app(service), raise_server_exceptions=False)
            target = Target(known, features, service.limits.bytes)
            good = json.dumps({"ids": known[:3], "probabilities": True})
            answer = client.post("/predict", content=good)
            if answer.status_code != 200:
                raise RuntimeError(answer.text)
            self.services.append((kind, client, target, good, answer.content))
        signal.signal(signal.SIGALRM, _hang)
        signal.signal(signal.SIGPROF, _hang)

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Send one request, and a good one after it."""
        seed = int(random.integers(2**40))
        kind, client, target, good, expected = self.services[number % len(self.services)]
        sent = hostile_request(seed, target)
        what = f"{sent.method} {sent.path[:60]} {sent.headers} {sent.body[:300]!r}"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.alarm(SECONDS)
        signal.setitimer(signal.ITIMER_PROF, CORE_SECONDS)
        try:
            headers = [(name, value.encode("latin-1")) for name, value in sent.headers.items()]
            answer = client.request(sent.method, sent.path, content=sent.body, headers=headers)
            after = client.post("/predict", content=good)
        except TimeoutError:
            return Result(outcome="hang", kind=kind, what=what)
        except Exception as error:  # noqa: BLE001 - the very outcome that is looked for
            return Result(outcome="unexpected", kind=kind, what=what, detail=repr(error)[:300])
        finally:
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        found = problem(answer.status_code, answer.text, sent)
        if found is None and after.content != expected:
            found = "the next good request has another answer"
        if found is None and grown * 1024 > MOST_GROWTH:
            found = f"{grown / 1024:.0f} MiB more"
        if found is not None:
            return Result(outcome="broken promise", kind=kind, what=what, detail=found)
        outcome = "answered" if answer.status_code < 300 else "refused"
        return Result(outcome=outcome, kind=kind, what=f"status {answer.status_code}")

    @staticmethod
    def _train(folder: Path, graph: Any) -> Path:
        from scr.classifier import NodeClassifier

        settings = {"name": "sign", "hidden": 8}
        fitted = NodeClassifier(settings, "none", preset="none", epochs=2).fit(graph)
        run: Path = fitted.save(folder / "run", source=str(graph.save(folder / "store")))
        return run


def _hang(*_: object) -> None:
    raise TimeoutError

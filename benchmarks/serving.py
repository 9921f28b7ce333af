"""Requests per second of `scr serve`, and how long they take: known nodes, and new ones.

    python benchmarks/serving.py
    python benchmarks/serving.py --table          prints what there is

A generated graph of 200,000 nodes, `sign` over 2 hops trained for one epoch, and a process of
`scr serve` on it. Clients are threads of this process, each with a connection that stays open, that
ask one request after the other for some seconds:

    1 id, 100 ids            known nodes, whose probabilities are kept
    1 new node               with five edges to known nodes
    10 new nodes             with five edges each

Clients and service share the machine, and whatever else runs on it; the processor time of the
service per request depends on that the least. Writes results/serving.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from harness import RESULTS, Results, console, scr_command

OUT = RESULTS / "serving.json"
SYNTH = {"nodes": 200_000, "edges": 1_000_000, "features": 128, "classes": 10}
EDGES = 5
CASES = {"1 id": ("ids", 1), "100 ids": ("ids", 100), "1 new node": ("nodes", 1),
         "10 new nodes": ("nodes", 10)}  # fmt: skip
CLIENTS = (1, 4)


def make_run(folder: Path) -> Path:
    """A run on a generated graph."""
    import scr
    from scr.graph import open_store
    from scr.synth import SynthConfig, write_synth_store

    graph = open_store(write_synth_store(SynthConfig(**SYNTH), folder / "store"))
    classifier = scr.NodeClassifier(
        "sign", "none", preset="none", epochs=1, propagation={"hops": 2}
    ).fit(graph)
    return classifier.save(folder / "run", source=str(folder / "store"))


def requests_of(kind: str, count: int, seed: int) -> list[bytes]:
    """Bodies that differ, to be asked in turn."""
    rng, bodies = np.random.default_rng(seed), []
    nodes = SYNTH["nodes"]
    for _ in range(64):
        if kind == "ids":
            content: dict[str, Any] = {"ids": rng.integers(0, nodes, count).tolist()}
        else:
            ids = range(nodes, nodes + count)
            rows = rng.standard_normal((count, SYNTH["features"])).round(4)
            ends = rng.integers(0, nodes, (count, EDGES))
            content = {
                "nodes": [
                    {"id": number, "features": row.tolist()}
                    for number, row in zip(ids, rows, strict=True)
                ],
                "edges": [
                    [number, int(end)] for number, row in zip(ids, ends, strict=True) for end in row
                ],
            }
        bodies.append(json.dumps(content).encode())
    return bodies


def ask(port: int, bodies: list[bytes], until: float, seconds: list[float]) -> None:
    """Ask one request after the other, and note how long each took."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    number = 0
    while time.perf_counter() < until:
        started = time.perf_counter()
        body = bodies[number % len(bodies)]
        connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise SystemExit(f"The service refused a request: {answer.decode()}")
        seconds.append(time.perf_counter() - started)
        number += 1
    connection.close()


def measure_case(
    service: psutil.Process, port: int, case: str, clients: int, duration: float
) -> dict[str, float]:
    """Requests per second, and quantiles of their time."""
    kind, count = CASES[case]
    ask(port, requests_of(kind, count, 0), time.perf_counter() + 1, [])  # warms up
    times: list[list[float]] = [[] for _ in range(clients)]
    bodies = [requests_of(kind, count, seed) for seed in range(1, clients + 1)]
    before = sum(service.cpu_times()[:2])
    started = time.perf_counter()
    threads = [
        threading.Thread(target=ask, args=(port, body, started + duration, each))
        for body, each in zip(bodies, times, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    spent = sum(service.cpu_times()[:2]) - before
    every = np.concatenate([np.array(each) for each in times])
    return {
        "requests": len(every),
        "per_second": round(len(every) / elapsed, 1),
        "p50_ms": round(float(np.quantile(every, 0.5)) * 1000, 2),
        "p99_ms": round(float(np.quantile(every, 0.99)) * 1000, 2),
        "processor_ms": round(spent / len(every) * 1000, 2),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """As the guide shows it."""
    lines = [
        "| request | clients | requests per second | median | 99% within | processor time |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['case']} | {row['clients']} | {row['per_second']:,.0f} | {row['p50_ms']:.1f} ms | "
        f"{row['p99_ms']:.1f} ms | {row['processor_ms']:.1f} ms |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    settings = {"encoder": "sign", "hops": 2, "synth": SYNTH, "seconds": options.seconds}
    results = Results(OUT, settings)
    if options.table:
        sys.stdout.write(table(results.rows) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder))
        command = scr_command("serve", run, "--port", "0")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            try:
                assert service.stdout is not None
                (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)", service.stdout.readline())
                watched = psutil.Process(service.pid)
                time.sleep(2)  # the line comes just before the socket listens
                for case in CASES:
                    for clients in CLIENTS:
                        values = measure_case(watched, int(port), case, clients, options.seconds)
                        console.print(results.add({"case": case, "clients": clients}, values))
            finally:
                service.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()

"""Seconds per epoch and peak memory of GAMLP + SCR-m, beside the official implementation.

    git clone https://github.com/THUDM/SCR official
    python benchmarks/training.py --official official

Both sides train on the same tensors, products-like: 50,000 labeled and 75,000 confident rows of
100 features in 6 matrices, 47 classes, hidden 512, the published settings of GAMLP + SCR-m, the
same batch size and threads. Each measurement is a process of its own, and the sides take turns,
because the machine may be busy. For the same reason processor time is recorded beside seconds: it
hardly depends on who else is running, and it flatters the official side, which leaves cores idle
while it draws masks on one. The official side is its own `train_mean_teacher`, unmodified; only
its import of a data loader whose libraries no longer install is stubbed. Its teacher keeps dropout
on; ours does so only on request, so both are measured. Writes `results/training.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

from code_version import code_version

RESULTS = Path(__file__).parent / "results" / "training.json"
Epoch = tuple[float, float]
"""Seconds, and seconds of processor time."""
SIDES = ("official", "scr", "scr, teacher with dropout")

LABELED, CONFIDENT, FEATURES, MATRICES, CLASSES = 50_000, 75_000, 100, 6, 47
PARAMETERS = 3_335_831  # as the official repository prints them
SETTINGS = {"hidden": 512, "layers": 4, "hop_layers": 2, "label_layers": 4, "dropout": 0.5,
            "input_dropout": 0.2, "attention_dropout": 0.5, "label_dropout": 0.0, "alpha": 0.5,
            "activation": "leaky_relu", "norm": "batch", "residual": True}  # fmt: skip
CONSISTENCY = {"weight": 0.2, "temperature": 0.5, "distance": "reverse-kl", "decay": 0.999,
               "ramp": True, "views": 1, "threshold": 0.0, "refresh": 1000,
               "trust": "full"}  # fmt: skip


def make_tensors() -> tuple[Any, Any, Any]:
    """Hops (rows, matrices, features), classes, and propagated labels (rows, classes)."""
    import torch

    torch.manual_seed(0)
    rows = LABELED + CONFIDENT
    hops = torch.randn(rows, MATRICES, FEATURES)
    return hops, torch.randint(CLASSES, (rows,)), torch.rand(rows, CLASSES)


def measure_scr(epochs: int, batch_size: int, *, teacher_dropout: bool) -> list[Epoch]:
    """Epochs of our trainer, the first one left out: it compiles and scores all rows once."""
    import torch

    from scr.compute import keep_freed_memory
    from scr.consistency import ConsistencyConfig
    from scr.networks import make_encoder
    from scr.training import EpochRecord, Rows, Stage, Trainer, TrainingConfig
    from scr.training._records import NO_VALIDATION

    keep_freed_memory()
    hops, classes, labels = make_tensors()
    rows = Rows(hops.numpy(), CLASSES, labels.unsqueeze(1).numpy())
    student = make_encoder("gamlp", SETTINGS, rows.shape)
    assert sum(parameter.numel() for parameter in student.parameters()) == PARAMETERS
    measured: list[Epoch] = []
    started = time.process_time()

    def add(record: EpochRecord) -> None:
        nonlocal started
        now = time.process_time()
        measured.append((record.seconds, now - started))
        started = now

    stage = Stage(
        train=torch.arange(LABELED),
        train_labels=classes[:LABELED],
        unlabeled=torch.arange(LABELED, len(rows)),
        validation=NO_VALIDATION,
        training=TrainingConfig(
            epochs=epochs + 1, batch_size=batch_size, unlabeled_per_batch="proportional"
        ),
        consistency=ConsistencyConfig(**CONSISTENCY, teacher_dropout=teacher_dropout),  # type: ignore[arg-type]
        on_epoch=add,
    )
    Trainer(student, rows, stage).run()
    return measured[1:]


def measure_official(epochs: int, batch_size: int, checkout: Path) -> list[Epoch]:
    """Epochs of the official `train_mean_teacher`, after one batch to warm up."""
    import torch
    from torch.utils.data import DataLoader

    stub = types.ModuleType("load_dataset")
    stub.load_dataset = None  # type: ignore[attr-defined]
    sys.modules["load_dataset"] = stub
    sys.path.insert(0, str(checkout / "ogbn-products"))
    import utils  # type: ignore[import-not-found]

    hops, classes, labels = make_tensors()
    features = [hops[:, hop].contiguous() for hop in range(MATRICES)]
    del hops
    settings = argparse.Namespace(
        method="R_GAMLP_RLU", num_hops=MATRICES - 1, hidden=512, dropout=0.5, input_drop=0.2,
        att_drop=0.5, label_drop=0.0, alpha=0.5, n_layers_1=4, n_layers_2=4, n_layers_3=4,
        act="leaky_relu", pre_process=True, residual=True, pre_dropout=False, bns=True, tem=0.5,
        lam=0.5, sup_lam=1.0, kl=True, kl_lam=0.2, adap=True, ema_decay=0.999,
    )  # fmt: skip
    student = utils.gen_model_rlu(settings, FEATURES, CLASSES)
    teacher = utils.gen_model_rlu(settings, FEATURES, CLASSES)
    for parameter in teacher.parameters():
        parameter.detach_()
    assert sum(parameter.numel() for parameter in student.parameters()) == PARAMETERS
    optimizer = torch.optim.Adam(student.parameters(), lr=0.001)
    # The shares of a batch, as the official `main.py` sets them.
    share = batch_size * LABELED // (LABELED + CONFIDENT)

    def epoch(labeled: int, confident: int, step: int) -> Epoch:
        first = DataLoader(torch.arange(labeled), batch_size=share, shuffle=True)  # type: ignore[arg-type, var-annotated]
        others = torch.arange(LABELED, LABELED + confident)
        second = DataLoader(others, batch_size=batch_size - share, shuffle=True)  # type: ignore[arg-type, var-annotated]
        started, busy = time.perf_counter(), time.process_time()
        utils.train_mean_teacher(
            student, teacher, features, classes, "cpu", torch.nn.CrossEntropyLoss(), optimizer,
            first, second, labels, lambda truth, found: (truth == found.view(-1)).float().mean(),
            settings, step,
        )  # fmt: skip
        return time.perf_counter() - started, time.process_time() - busy

    epoch(share, batch_size - share, 0)
    return [epoch(LABELED, CONFIDENT, step) for step in range(1, epochs + 1)]


def measure(side: str, options: argparse.Namespace) -> dict[str, Any]:
    """One measurement, in this process."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    if side == "official":
        epochs = measure_official(options.epochs, options.batch_size, options.official)
    else:
        noisy = side != "scr"
        epochs = measure_scr(options.epochs, options.batch_size, teacher_dropout=noisy)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds_per_epoch": [seconds for seconds, _ in epochs],
        "processor_seconds_per_epoch": [busy for _, busy in epochs],
        "peak_memory_bytes": usage.ru_maxrss * 1024,
    }


def in_own_process(side: str, options: argparse.Namespace) -> dict[str, Any]:
    """One measurement, in a process of its own; its result is the last line it prints."""
    command = [sys.executable, __file__, "--side", side, "--official", str(options.official),
               "--epochs", str(options.epochs), "--batch-size", str(options.batch_size),
               "--threads", str(options.threads)]  # fmt: skip
    # Threads that wait actively burn the processor time of whoever else is running.
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    found: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return found


def summarize(runs: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> dict[str, Any]:
    """Medians per side, and how they compare with the official side."""
    rows = {}
    for side, found in runs.items():
        seconds = [value for run in found for value in run["seconds_per_epoch"]]
        busy = [value for run in found for value in run["processor_seconds_per_epoch"]]
        rows[side] = {
            "seconds_per_epoch": statistics.median(seconds),
            "processor_seconds_per_epoch": statistics.median(busy),
            "all_seconds": seconds,
            "all_processor_seconds": busy,
            "peak_memory_bytes": statistics.median(run["peak_memory_bytes"] for run in found),
        }
    base = rows["official"]
    for row in rows.values():
        row["times_faster"] = base["seconds_per_epoch"] / row["seconds_per_epoch"]
        row["times_less_processor_time"] = (
            base["processor_seconds_per_epoch"] / row["processor_seconds_per_epoch"]
        )
        row["share_of_memory"] = row["peak_memory_bytes"] / base["peak_memory_bytes"]
    return {
        "command": "python benchmarks/training.py --official CHECKOUT_OF_THUDM_SCR "
        f"--repeats {options.repeats} --epochs {options.epochs}",
        "problem": {"labeled": LABELED, "confident": CONFIDENT, "features": FEATURES,
                    "matrices": MATRICES, "classes": CLASSES, "hidden": SETTINGS["hidden"],
                    "batch_size": options.batch_size, "threads": options.threads},
        "machine": {"processor": platform.processor() or platform.machine(),
                    "python": platform.python_version()},
        "repeats": options.repeats,
        "code": code_version("training"),
        "rows": rows,
    }  # fmt: skip


def main() -> None:
    """Take turns, print a line per measurement, write the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--official", type=Path, required=True, help="checkout of THUDM/SCR")
    parser.add_argument("--epochs", type=int, default=1, help="timed epochs per process")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=25_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options)))
        return
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(options.repeats):
        for side in SIDES:
            found = in_own_process(side, options)
            runs[side].append(found)
            pairs = zip(
                found["seconds_per_epoch"], found["processor_seconds_per_epoch"], strict=True
            )
            times = ", ".join(f"{seconds:.1f} ({busy:.1f}) s" for seconds, busy in pairs)
            print(f"{side}: {times}, {found['peak_memory_bytes'] / 2**30:.2f} GiB", flush=True)
    summary = summarize(runs, options)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    for side, row in summary["rows"].items():
        print(
            f"{side}: {row['seconds_per_epoch']:.1f} s per epoch, {row['times_faster']:.2f} times "
            f"faster, {row['times_less_processor_time']:.2f} times less processor "
            f"time, {row['share_of_memory']:.2f} of the memory"
        )


if __name__ == "__main__":
    main()

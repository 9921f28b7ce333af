"""A run directory with small but complete content, as a report finds it."""

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

HOSTILE = "<script>alert('x')</script> & \"co\""


@pytest.fixture
def history():
    return [
        {
            "epoch": epoch, "supervised_loss": 2.0 / epoch**2, "consistency_loss": 0.1 / epoch,
            "valid_accuracy": 0.9 - 0.5 / epoch, "confident_nodes": 10 * epoch,
            "confident_valid_accuracy": 0.95, "threshold": 0.8,
        }
        for epoch in range(1, 11)
    ]  # fmt: skip


@pytest.fixture
def run_dir(tmp_path, history):
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 60)
    predictions = np.where(generator.random(60) < 0.8, labels, (labels + 1) % 3)
    names = np.array(["cat", "dog", HOSTILE])
    content = {
        "run.json": {
            "graph": {"name": HOSTILE, "nodes": 60, "edges": 100, "classes": 3},
            "recipe": {"encoder": {"name": "ssgc"}, "training": {"epochs": 10}},
            "preset": {"name": "few-labels", "reason": "10 labels for 3 classes"},
            "notes": ["lambda turned down because of " + HOSTILE],
            "seed": 4,
            "regularizer": "scr",
            "command": "scr train " + HOSTILE,
            "versions": {"scr": "0.1.0"},
        },
        "metrics.json": {
            "valid_accuracy": 0.8123, "test_accuracy": 0.7987, "best_epoch": 8, "epochs": 10,
            "train_seconds": 1.5, "propagate_seconds": 0.1, "peak_memory_bytes": 2**30,
            "test": {"balanced_accuracy": 0.7777, "log_loss": 0.5, "calibration_error": None},
        },
    }  # fmt: skip
    for name, value in content.items():
        (tmp_path / name).write_text(json.dumps(value))
    lines = [json.dumps(record) for record in history]
    (tmp_path / "history.jsonl").write_text("\n".join(lines) + '\n{"epoch": 11, "superv')
    table = pyarrow.table(
        {
            "id": [f"node <{i}>" for i in range(60)],
            "prediction": names[predictions],
            "confidence": generator.uniform(0.4, 1.0, 60),
            "split": ["train"] * 10 + ["valid"] * 20 + ["test"] * 30,
            "label": names[labels],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "predictions.parquet")
    return tmp_path

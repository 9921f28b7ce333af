"""The table of regularizers on one encoder, from runs whose means can be worked in the head."""

import json

import pytest


@pytest.fixture
def tables(benchmark_module, tmp_path, monkeypatch):
    module = benchmark_module("regularizer_tables")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def test_without_results_there_is_no_table(tables):
    assert tables.regularizer_lines() == []


def test_rows_have_both_accuracies_the_weight_and_both_gains(tables, tmp_path):
    for graph, gain in (("cora", 0.02), ("dblp_citation", 0.04)):
        runs = [
            {"graph": graph, "encoder": "ssgc", "regularizer": name, "seed": seed,
             "valid_accuracy": 0.8 + more, "test_accuracy": 0.8 + more,
             "balanced_accuracy": 0.7 - more, "train_seconds": 1.0}
            for name, more in (("none", 0.0), ("pi", gain))
            for seed in range(2)
        ]  # fmt: skip
        content = {"runs": runs, "weights": {"none": {"chosen": 0.0}, "pi": {"chosen": 0.3}}}
        (tmp_path / "regularizers").mkdir(exist_ok=True)
        (tmp_path / "regularizers" / f"{graph}.json").write_text(json.dumps(content))
    lines = tables.regularizer_lines()
    assert "| base | 80.0 ± 0.0 (70.0) | 80.0 ± 0.0 (70.0) |  |  |" in lines
    assert (
        "| Π-model | **82.0 ± 0.0 (68.0)** [0.3] | **84.0 ± 0.0 (66.0)** [0.3] | "
        "+3.0 [+3.0, +3.0] | -3.0 [-3.0, -3.0] |"
    ) in lines
    assert len([line for line in lines if line.startswith("|")]) == 4

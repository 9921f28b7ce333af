"""Runs of the results files are taken instead of new ones while they hold."""

import json


def test_known_runs_are_whole_and_of_the_same_code(benchmark_module, tmp_path, monkeypatch):
    accuracy = benchmark_module("accuracy")
    monkeypatch.setattr(accuracy, "HERE", tmp_path)
    assert accuracy.known_runs("networks", "cora", "now") == {}
    runs = [
        {"key": "a", "code": "now", "balanced_accuracy": 0.5},
        {"key": "b", "code": "before", "confirmed": "now", "balanced_accuracy": 0.5},
        {"key": "c", "code": "before", "balanced_accuracy": 0.5},
        {"key": "d", "code": "now"},
        {"code": "now", "balanced_accuracy": 0.5},
    ]
    file = tmp_path / "results" / "networks" / "cora.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"runs": runs}))
    assert list(accuracy.known_runs("networks", "cora", "now")) == ["a", "b"]

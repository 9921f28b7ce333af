"""The tables of accuracy, from runs whose means can be worked in the head."""

import json

import pytest


def runs(graph, encoder, regularizer, accuracies, balanced):
    return [
        {
            "graph": graph, "encoder": encoder, "regularizer": regularizer, "seed": seed,
            "valid_accuracy": accuracy, "test_accuracy": accuracy, "balanced_accuracy": mean_recall,
            "train_seconds": 1.0, "notes": [],
        }
        for seed, (accuracy, mean_recall) in enumerate(zip(accuracies, balanced, strict=True))
    ]  # fmt: skip


@pytest.fixture
def tables(benchmark_module, tmp_path, monkeypatch):
    module = benchmark_module("accuracy_tables")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def write(folder, kind, graph, *parts):
    (folder / kind).mkdir(exist_ok=True)
    found = {"runs": [run for part in parts for run in part]}
    (folder / kind / f"{graph}.json").write_text(json.dumps(found))


def cora_and_pubmed(folder, kind):
    write(folder, kind, "cora",
          runs("cora", "ssgc", "none", [0.80, 0.82], [0.80, 0.80]),
          runs("cora", "ssgc", "scr", [0.84, 0.86], [0.81, 0.81]),
          runs("cora", "gamlp-jk", "none", [0.70, 0.70], [0.70, 0.70]),
          runs("cora", "gamlp-jk", "scr", [0.72, 0.72], [0.68, 0.68]))  # fmt: skip
    write(folder, kind, "pubmed",
          runs("pubmed", "ssgc", "none", [0.70, 0.70], [0.60, 0.62]),
          runs("pubmed", "ssgc", "scr", [0.69, 0.69], [0.60, 0.60]))  # fmt: skip


def test_balanced_accuracy_stands_in_every_cell_and_gain(tables, tmp_path):
    cora_and_pubmed(tmp_path, "accuracy")
    text = "\n".join(tables.tuned_lines())
    assert "| `ssgc` | base | 81.0 ± 1.4 (80.0) | **70.0 ± 0.0 (61.0)** |" in text
    assert "|  | SCR | **85.0 ± 1.4 (81.0)** | 69.0 ± 0.0 (60.0) |" in text


def test_a_gain_says_over_how_many_graphs_it_is(tables, tmp_path):
    cora_and_pubmed(tmp_path, "accuracy")
    rows = tables.gain_table(tables.read("accuracy"))
    assert any(row.startswith("| `ssgc` | SCR | 2 | +1.5 ") for row in rows)
    assert any(row.startswith("| `gamlp-jk` | SCR | 1 | +2.0 ") for row in rows)


def test_both_gains_over_all_pairs_are_computed_from_the_runs(tables, tmp_path):
    cora_and_pubmed(tmp_path, "accuracy")
    (sentence,) = tables.pairs_sentence(tables.read("accuracy"))
    # The gains of accuracy are 4, -1 and 2 points; those of balanced accuracy are 1, -1 and -2.
    assert sentence.startswith("Over 3 pairs of an encoder and a graph")
    assert "SCR gains +1.7 [+1.7, +1.7] points of accuracy and -0.7 [" in sentence
    assert "SCR-m" not in sentence


def test_grand_is_a_row_of_its_encoder(tables, tmp_path):
    cora_and_pubmed(tmp_path, "accuracy")
    rows = [{"graph": "cora", "seed": seed, "valid_accuracy": 0.9, "test_accuracy": 0.85,
             "train_seconds": 1.0} for seed in range(2)]  # fmt: skip
    (tmp_path / "grand.json").write_text(json.dumps({"rows": rows}))
    lines = tables.tuned_lines()
    place = lines.index("|  | GRAND | **85.0 ± 0.0** |  |")
    assert lines[place - 1].startswith("|  | SCR | 85.0 ± 1.4 (81.0)")
    assert lines[place + 1].startswith("| `gamlp-jk` | base |")
    assert "seeds: cora 2)" in lines[0]


def test_presets_are_counted_where_they_reach_the_base(tables, tmp_path):
    cora_and_pubmed(tmp_path, "defaults")
    lines = tables.default_lines()
    # Means over graphs: (81 + 70) / 2, (85 + 69) / 2; gamlp-jk was not run on both.
    assert "| mean over graphs |  | 75.5 (70.5) | 77.0 (70.5) |  |  |" in lines
    assert any(line.endswith("| 1 of 2 graphs | 1 of 2 graphs |") for line in lines)

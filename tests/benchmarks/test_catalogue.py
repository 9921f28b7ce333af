"""The catalog has every oddity that it is said to have, and predictions are scored by id."""

import csv

import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture
def data(tmp_path):
    generator = np.random.default_rng(0)
    words = sp.random_array((200, 30), density=0.2, rng=generator, format="csr")
    edges = generator.integers(0, 200, (2, 2000))
    path = tmp_path / "data.npz"
    np.savez(path, y=np.arange(200) % 8, edge_index=edges, x_indices=words.indices,
             x_indptr=words.indptr)  # fmt: skip
    return path


def rows(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_labels_are_emptied_for_half_and_edges_lead_to_unknown_nodes(
    benchmark_module, data, tmp_path
):
    module = benchmark_module("catalogue")
    emptied = module.write_catalogue(data, tmp_path)
    nodes, edges = rows(tmp_path / "nodes.csv"), rows(tmp_path / "edges.csv")
    assert len(nodes) == 200
    assert {row["sku"] for row in nodes if not row["category"]} == emptied.keys()
    assert len(emptied) == 100
    ids = {row["sku"] for row in nodes}
    unknown = [row for row in edges if row["also_bought"] not in ids]
    assert len(unknown) == module.UNKNOWN_EDGES
    pairs = {(row["product"], row["also_bought"]) for row in edges}
    assert len(pairs) < len(edges)
    assert any(not row["description"] for row in nodes)
    assert any(not row["price"] for row in nodes)
    predictions = tmp_path / "predictions.csv"
    with predictions.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "prediction"])
        right = set(sorted(emptied)[:75])
        for row in reversed(nodes):
            table.writerow([row["sku"], emptied[row["sku"]] if row["sku"] in right else "other"])
    assert module.accuracy_of(predictions, emptied) == 0.75

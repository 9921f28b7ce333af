"""OGB's own package, where it is installed, reads the same arrays from the same files."""

import numpy as np
import pandas as pd
import pytest
from tests.sources.readers.ogb_files import (
    random_arrays,
    write_arxiv,
    write_mag,
    write_papers,
    write_products,
)

from scr.sources import IngestOptions
from scr.sources.readers._ogb import read_ogb
from scr.sources.readers._ogb_typed import read_ogb_typed
from scr.synth import SynthConfig

theirs = pytest.importorskip("ogb.io.read_graph_raw")


@pytest.mark.parametrize("write", [write_products, write_arxiv])
def test_tables_agree(tmp_path, write):
    folder = write(tmp_path / "ogbn_toy", random_arrays())
    raw = read_ogb(folder, IngestOptions())
    (graph,) = theirs.read_csv_graph_raw(str(folder / "raw"))
    assert graph["num_nodes"] == raw.num_nodes
    np.testing.assert_array_equal(graph["edge_index"], raw.edges)
    np.testing.assert_array_equal(graph["node_feat"], raw.features)
    labels = pd.read_csv(folder / "raw" / "node-label.csv.gz", header=None).to_numpy()
    np.testing.assert_array_equal(labels[:, 0], raw.labels)


def test_synthetic_files_in_the_same_layout_agree(tmp_path):
    from scr.synth import write_synth_ogb

    config = SynthConfig(nodes=200, edges=800, features=6, classes=4)
    folder = write_synth_ogb(config, tmp_path / "ogbn_synth")
    raw = read_ogb(folder, IngestOptions())
    (graph,) = theirs.read_csv_graph_raw(str(folder / "raw"), add_inverse_edge=True)
    np.testing.assert_array_equal(graph["edge_index"][:, ::2], raw.edges)
    np.testing.assert_array_equal(graph["edge_index"][:, 1::2], raw.edges[::-1])
    np.testing.assert_array_equal(graph["node_feat"], raw.features)


def test_archives_agree(tmp_path):
    folder = write_papers(tmp_path / "ogbn_papers100M", random_arrays(unlabeled=4))
    raw = read_ogb(folder, IngestOptions())
    (graph,) = theirs.read_binary_graph_raw(str(folder / "raw"))
    assert graph["num_nodes"] == raw.num_nodes
    np.testing.assert_array_equal(graph["edge_index"], raw.edges)
    np.testing.assert_array_equal(graph["node_feat"], raw.features)


def test_types_and_relations_agree(tmp_path):
    folder, _ = write_mag(tmp_path / "ogbn_mag")
    typed = read_ogb_typed(folder, IngestOptions())
    (graph,) = theirs.read_csv_heterograph_raw(
        str(folder / "raw"), additional_node_files=["node_year"],
        additional_edge_files=["edge_reltype"],
    )  # fmt: skip
    assert graph["num_nodes_dict"] == typed.num_nodes
    assert set(graph["edge_index_dict"]) == set(typed.relations)
    for relation, edges in graph["edge_index_dict"].items():
        np.testing.assert_array_equal(edges, typed.relations[relation])
    assert set(graph["node_feat_dict"]) == set(typed.features)
    np.testing.assert_array_equal(graph["node_feat_dict"]["paper"], typed.features["paper"])
    labels = theirs.read_node_label_hetero(str(folder / "raw"))
    np.testing.assert_array_equal(labels["paper"][:, 0], typed.labels)
    split = theirs.read_nodesplitidx_split_hetero(str(folder / "split" / "time"))
    for nodes, part in zip(split, ("train", "valid", "test"), strict=True):
        np.testing.assert_array_equal(nodes["paper"], getattr(typed, part))

import gzip

import numpy as np
import pytest
from tests.synth.graphs import synth_graph

from scr.errors import StoreError
from scr.sources import load_graph
from scr.synth import SynthConfig, write_synth_ogb
from scr.synth._ogb_layout import write_ogb

CONFIG = SynthConfig(nodes=400, edges=1500, features=7, classes=5, label_fraction=0.3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_reading_the_files_gives_the_synthetic_graph(tmp_path, dtype):
    config = SynthConfig(**vars(CONFIG) | {"dtype": dtype})
    graph = load_graph(write_synth_ogb(config, tmp_path / "ogbn_synth"))
    expected = synth_graph(config)
    for name in ("indptr", "indices", "features", "labels", "train", "valid", "test"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(expected, name))
    assert graph.class_names == expected.class_names


def test_the_folder_has_the_layout_of_products(tmp_path):
    folder = write_synth_ogb(CONFIG, tmp_path / "ogbn_synth")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == [
        "RELEASE_v1.txt",
        "mapping/labelidx2productcategory.csv.gz",
        "raw/edge.csv.gz",
        "raw/node-feat.csv.gz",
        "raw/node-label.csv.gz",
        "raw/num-edge-list.csv.gz",
        "raw/num-node-list.csv.gz",
        "split/sales_ranking/test.csv.gz",
        "split/sales_ranking/train.csv.gz",
        "split/sales_ranking/valid.csv.gz",
    ]
    assert gzip.decompress((folder / "raw/num-node-list.csv.gz").read_bytes()) == b"400\n"
    edges = gzip.decompress((folder / "raw/edge.csv.gz").read_bytes()).decode().splitlines()
    assert len(edges) == 1500
    assert all(end.isdigit() for end in edges[0].split(","))


def test_a_graph_without_features_or_validation_nodes_is_written(tmp_path):
    config = SynthConfig(**vars(CONFIG) | {"features": 0, "valid_fraction": 0.0})
    graph = load_graph(write_synth_ogb(config, tmp_path / "ogbn_synth"))
    assert graph.features is None
    assert len(graph.valid) == 0
    assert len(graph.train) + len(graph.test) == 400


def test_an_existing_folder_is_left_alone_and_a_failure_leaves_nothing(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").touch()
    with pytest.raises(StoreError, match="exists already"):
        write_synth_ogb(CONFIG, tmp_path / "mine")

    def failing():
        yield np.zeros((2, 3), np.int32)
        raise ValueError("no more")

    labels = np.zeros(3, np.int64)
    splits = dict.fromkeys(("train", "valid", "test"), labels)
    with pytest.raises(ValueError, match="no more"):
        write_ogb(tmp_path / "new", edges=failing(), labels=labels, splits=splits)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_equal_graphs_are_equal_bytes_whenever_they_are_written(tmp_path, monkeypatch):
    contents = []
    for moment in (1e9, 2e9):
        monkeypatch.setattr("time.time", lambda moment=moment: moment)
        folder = write_synth_ogb(CONFIG, tmp_path / str(moment) / "ogbn_synth")
        contents.append([path.read_bytes() for path in sorted(folder.rglob("*.gz"))])
    assert len(contents[0]) == 9
    assert contents[0] == contents[1]

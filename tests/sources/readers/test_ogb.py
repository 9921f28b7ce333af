import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sources.readers.ogb_files import (
    MAG_COUNTS,
    random_arrays,
    write_arxiv,
    write_csv,
    write_mag,
    write_papers,
    write_products,
    write_text,
)

from scr.errors import GraphError, SourceError
from scr.graph import Graph
from scr.sources import IngestOptions, load_graph
from scr.sources.readers import _npz as npz
from scr.sources.readers._ogb import read_ogb, whole_labels
from scr.sources.readers._ogb_typed import read_ogb_typed
from scr.synth._ogb_layout import write_ogb

PARTS = ("train", "valid", "test")


def symmetric(edges, nodes):
    """The adjacency of an undirected graph without loops, by SciPy."""
    matrix = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), (nodes, nodes)).tocsr()
    matrix = matrix + matrix.T
    matrix.setdiag(0)
    return (matrix.toarray() > 0).astype(np.float32)


def assert_same(raw, arrays):
    np.testing.assert_array_equal(raw.edges, arrays.edges)
    np.testing.assert_array_equal(raw.features, arrays.features)
    np.testing.assert_array_equal(raw.labels, np.nan_to_num(arrays.labels, nan=-1))
    for part in PARTS:
        np.testing.assert_array_equal(getattr(raw, part), getattr(arrays, part))
    assert raw.num_nodes == arrays.nodes


ARRAYS = st.builds(
    random_arrays,
    nodes=st.integers(10, 40),
    edges=st.integers(1, 50),
    features=st.integers(1, 6),
    classes=st.integers(2, 3),
    seed=st.integers(0, 1000),
    unlabeled=st.integers(0, 3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(arrays=ARRAYS, write=st.sampled_from([write_products, write_arxiv, write_papers]))
def test_reading_gives_back_the_arrays(tmp_path_factory, arrays, write):
    folder = write(tmp_path_factory.mktemp("data") / "ogbn_toy", arrays)
    assert_same(read_ogb(folder, IngestOptions()), arrays)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(arrays=ARRAYS)
def test_our_own_writer_writes_what_the_reader_reads(tmp_path_factory, arrays):
    folder = write_ogb(
        tmp_path_factory.mktemp("data") / "ogbn_toy",
        edges=np.array_split(arrays.edges, 3, axis=1),
        labels=np.nan_to_num(arrays.labels, nan=-1),
        splits=vars(arrays),
        features=np.array_split(arrays.features, 2),
        class_names=[f"kind {number}" for number in range(arrays.classes)],
    )
    raw = read_ogb(folder, IngestOptions())
    assert_same(raw, arrays)
    assert raw.class_names == tuple(f"kind {number}" for number in range(arrays.classes))


def test_products_are_undirected_with_names_and_the_official_split(tmp_path):
    arrays = random_arrays()
    graph = load_graph(write_products(tmp_path / "ogbn_products", arrays))
    assert graph.name == "ogbn-products"
    np.testing.assert_array_equal(graph.adjacency().toarray(), symmetric(arrays.edges, 30))
    assert graph.class_names == ("name, 0", "name, 1", "name, 2")
    np.testing.assert_array_equal(graph.test, arrays.test)
    assert any("sales_ranking" in step for step in graph.steps)
    assert any("symmetrized" in step for step in graph.steps)


def test_the_direction_of_citations_is_kept_if_asked(tmp_path):
    arrays = random_arrays()
    folder = write_arxiv(tmp_path / "ogbn_arxiv", arrays)
    graph = load_graph(folder, options=IngestOptions(symmetrize=False, drop_self_loops=False))
    expected = np.zeros((30, 30))
    expected[tuple(arrays.edges)] = 1
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    assert graph.directed


@pytest.mark.parametrize("compressed", [True, False])
def test_papers_are_memory_maps_with_unknown_labels(tmp_path, monkeypatch, compressed):
    monkeypatch.setattr(npz, "SMALL_BYTES", 0)
    arrays = random_arrays(unlabeled=5)
    folder = write_papers(tmp_path / "ogbn_papers100M", arrays, compressed=compressed)
    raw = read_ogb(folder, IngestOptions())
    assert isinstance(raw.features, np.memmap)
    assert isinstance(raw.edges, np.memmap)
    assert_same(raw, arrays)
    assert (folder / "raw" / "data-unpacked").exists() == compressed
    graph = load_graph(folder)
    assert graph.labels[-5:].tolist() == [-1] * 5
    assert graph.class_names == ("0", "1", "2")
    np.testing.assert_array_equal(graph.adjacency().toarray(), symmetric(arrays.edges, 30))


def test_typed_files_are_read_whole(tmp_path):
    folder, arrays = write_mag(tmp_path / "ogbn_mag")
    typed = read_ogb_typed(folder, IngestOptions())
    assert typed.num_nodes == MAG_COUNTS
    assert typed.target == "paper"
    assert set(typed.relations) == set(arrays.relations)
    for relation, edges in arrays.relations.items():
        np.testing.assert_array_equal(typed.relations[relation], edges)
    assert list(typed.features) == ["paper"]
    np.testing.assert_array_equal(typed.features["paper"], arrays.features)
    np.testing.assert_array_equal(typed.labels, arrays.labels)
    assert typed.class_names == ("name, 0", "name, 1", "name, 2")
    for part in PARTS:
        np.testing.assert_array_equal(getattr(typed, part), getattr(arrays, part))


@pytest.mark.parametrize("by", ["folder", "name"])
def test_a_typed_folder_is_loaded_with_all_its_types(tmp_path, monkeypatch, by):
    folder, arrays = write_mag(tmp_path / "ogbn_mag")
    monkeypatch.setenv("SCR_DATA", str(tmp_path))
    graph = load_graph(folder if by == "folder" else "ogbn-mag")
    assert graph.target == "paper"
    assert dict(graph.node_types) == MAG_COUNTS
    assert {tuple(each) for each in graph.relations} == set(arrays.relations)
    np.testing.assert_array_equal(graph.features, arrays.features)
    np.testing.assert_array_equal(graph.test, arrays.test)
    writes = np.zeros((12, 7))
    authors, papers = arrays.relations["author", "writes", "paper"]
    writes[papers, authors] = 1
    author = graph.nodes_of("author")
    found = graph.only("writes").adjacency().toarray()[:12, author.start : author.stop]
    np.testing.assert_array_equal(found, writes)
    assert graph.steps[0].startswith("read 42 edges of 4 relations between 7 author")
    assert any("official split `time`" in step for step in graph.steps)


def test_features_of_papers_may_come_from_a_file(tmp_path):
    folder, _ = write_mag(tmp_path / "ogbn_mag")
    (folder / "raw" / "node-feat" / "paper" / "node-feat.csv.gz").write_bytes(b"never read")
    np.save(tmp_path / "x.npy", np.ones((12, 2), np.float32))
    graph = load_graph(folder, features=tmp_path / "x.npy")
    np.testing.assert_array_equal(graph.features, np.ones((12, 2)))
    np.save(tmp_path / "x.npy", np.ones((26, 2), np.float32))
    with pytest.raises(SourceError, match="expected 12 rows"):
        load_graph(folder, features=tmp_path / "x.npy")


def test_papers_alone_are_a_graph_of_one_type_as_the_guide_says(tmp_path):
    folder, arrays = write_mag(tmp_path / "ogbn_mag")
    mag = load_graph(folder)
    citations = mag.only("cites").adjacency().tocoo()
    splits = {part: getattr(mag, part) for part in PARTS}
    papers = Graph.from_edges(
        np.stack(citations.coords), features=mag.features, labels=mag.labels, **splits
    )
    cites = arrays.relations["paper", "cites", "paper"]
    np.testing.assert_array_equal(papers.adjacency().toarray(), symmetric(cites, 12))
    np.testing.assert_array_equal(papers.features, arrays.features)


@pytest.mark.parametrize(
    "file",
    [
        "raw/edge.csv.gz",
        "raw/num-node-list.csv.gz",
        "raw/node-label.csv.gz",
        "split/time/valid.csv.gz",
    ],
)
def test_a_missing_file_is_named(tmp_path, file):
    folder = write_arxiv(tmp_path / "ogbn_arxiv", random_arrays())
    (folder / file).unlink()
    with pytest.raises(SourceError, match=f"{file}` is missing"):
        load_graph(folder)


def test_features_and_names_may_be_missing(tmp_path):
    folder = write_arxiv(tmp_path / "ogbn_arxiv", random_arrays())
    (folder / "raw" / "node-feat.csv.gz").unlink()
    next((folder / "mapping").glob("*.gz")).unlink()
    graph = load_graph(folder)
    assert graph.features is None
    assert graph.class_names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("raw/num-node-list.csv.gz", "31\n", r"has 30 rows; expected 31, as `num-node-list"),
        ("raw/num-edge-list.csv.gz", "59\n", r"edge.csv.gz` has more than 59 rows"),
        ("raw/num-edge-list.csv.gz", "30\n30\n", r"num-edge-list.csv.gz` is \[30, 30\]; expected"),
        ("raw/node-label.csv.gz", "7\n" * 30, r"row 1: the label is 7; expected .* from 0 to 2"),
        ("raw/node-label.csv.gz", "0.5\n" * 30, r"row 1: the label is 0.5; expected"),
        ("raw/node-label.csv.gz", "0,1\n" * 30, r"has 2 columns; expected 1"),
        ("split/time/test.csv.gz", "20\n30\n", r"row 2: there is no node 30; .* from 0 to 29"),
        ("split/time/test.csv.gz", "-1\n", r"row 1: there is no node -1"),
    ],
)
def test_what_does_not_fit_together_is_said_in_one_sentence(tmp_path, file, content, message):
    folder = write_arxiv(tmp_path / "ogbn_arxiv", random_arrays())
    write_text(folder / file, content)
    with pytest.raises(SourceError, match=message):
        load_graph(folder)


def test_an_edge_beyond_the_nodes_is_refused(tmp_path):
    arrays = random_arrays()
    arrays.edges[1, 4] = 30
    with pytest.raises(GraphError, match="Edge 4 goes from"):
        load_graph(write_products(tmp_path / "ogbn_products", arrays))


def test_a_truncated_file_is_refused(tmp_path):
    folder = write_products(tmp_path / "ogbn_products", random_arrays(nodes=300, edges=3000))
    file = folder / "raw" / "edge.csv.gz"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(SourceError, match=r"edge.csv.gz.*cut off"):
        load_graph(folder)


def test_counts_of_an_archive_that_do_not_fit_are_refused(tmp_path):
    arrays = random_arrays()
    arrays.nodes = 31
    with pytest.raises(SourceError, match=r"`node_label` .* shape \(30,\); expected \(31\)"):
        load_graph(write_papers(tmp_path / "ogbn_papers100M", arrays))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("num-node-dict.csv.gz", "paper\n", "has 1 rows; expected the names of the types"),
        ("num-node-dict.csv.gz", "../x,paper\n1,12\n", "cannot be the name of a type"),
        ("num-node-dict.csv.gz", "author,paper\nmany,12\n", "'many' nodes"),
        ("nodetype-has-label.csv.gz", "author,paper\nFalse,False\n", r"types \[\] have labels"),
        ("triplet-type-list.csv.gz", "paper,cites\n", "row 1: found"),
        ("triplet-type-list.csv.gz", "author,writes,book\n", "row 1: found"),
    ],
)
def test_typed_files_that_do_not_fit_are_refused(tmp_path, file, content, message):
    folder, _ = write_mag(tmp_path / "ogbn_mag")
    write_text(folder / "raw" / file, content)
    with pytest.raises(SourceError, match=message):
        load_graph(folder)


def test_types_without_features_and_edges_are_refused(tmp_path):
    folder, _ = write_mag(tmp_path / "ogbn_mag")
    write_text(folder / "raw" / "triplet-type-list.csv.gz", "author,writes,paper\n")
    with pytest.raises(GraphError, match="`field_of_study` has neither features nor edges"):
        load_graph(folder)


def test_class_names_are_made_distinct_and_odd_ones_left_out(tmp_path):
    folder = write_products(tmp_path / "ogbn_products", random_arrays())
    mapping = folder / "mapping" / "labelidx2productcategory.csv.gz"
    write_text(mapping, "label idx,product category\n0,Books\n2,Books\n1,\n")
    assert load_graph(folder).class_names == ("Books (0)", "1", "Books (2)")
    write_text(mapping, "label idx,product category\n1,Books\n2,Toys\n3,Cars\n")
    graph = load_graph(folder)
    assert graph.class_names == ("0", "1", "2")
    assert any("not numbered from 0" in step for step in graph.steps)


def test_two_kinds_of_split_are_ambiguous(tmp_path):
    folder = write_products(tmp_path / "ogbn_products", random_arrays())
    (folder / "split" / "random").mkdir()
    with pytest.raises(SourceError, match="random, sales_ranking; expected one"):
        load_graph(folder)


def test_files_are_plain_rows_without_a_header(tmp_path):
    # What OGB's own files look like, so that the other tests prove something about them.
    arrays = random_arrays()
    folder = write_arxiv(tmp_path / "ogbn_arxiv", arrays)
    first = gzip.decompress((folder / "raw" / "node-feat.csv.gz").read_bytes()).split(b"\n")[0]
    assert first.decode() == ",".join(str(value) for value in arrays.features[0])
    write_csv(tmp_path / "y.csv.gz", [1, 2])
    assert gzip.decompress((tmp_path / "y.csv.gz").read_bytes()) == b"1\n2\n"


def test_a_label_without_end_is_no_class():
    with pytest.raises(SourceError, match="row 2: the label is inf"):
        whole_labels(np.array([0, np.inf]), "labels", None)

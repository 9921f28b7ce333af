"""Graphs of several types, against a dense construction edge by edge."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from tests.graph.typed_graphs import dense_relation, offsets, typed_inputs

from scr.errors import GraphError
from scr.graph import Graph

WRITES = ("author", "writes", "paper")
CITES = ("paper", "cites", "paper")
EDGES = {WRITES: [[0, 1, 1], [0, 0, 2]], CITES: [[0, 2, 1], [1, 1, 1]]}


def made(relations=EDGES, **changes):
    given = {"features": {"paper": np.ones((3, 2))}, "target": "paper"} | changes
    return Graph.from_relations(relations, **given)


def build(inputs):
    return Graph.from_relations(**vars(inputs))


@settings(max_examples=60)
@given(inputs=typed_inputs(weighted=True))
def test_each_code_holds_the_edges_of_its_relation_in_one_direction(inputs):
    graph = build(inputs)
    if not graph.is_typed:
        return
    count = len(graph.relations)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    values = np.ones(graph.num_edges) if graph.weights is None else graph.weights
    left_out = " ".join(graph.steps)
    for number, relation in enumerate(graph.relations):
        expected = dense_relation(inputs, tuple(relation))
        for code, wanted in ((number, expected), (number + count, expected.T)):
            chosen = graph.edge_types == code
            found = np.zeros_like(expected)
            found[rows[chosen], graph.indices[chosen]] = values[chosen]
            np.testing.assert_array_equal(found, wanted)
            assert chosen.sum() == np.count_nonzero(wanted)
    for key in set(inputs.relations) - {tuple(each) for each in graph.relations}:
        assert f"left out {':'.join(key)}" in left_out


@settings(max_examples=60)
@given(inputs=typed_inputs())
def test_nodes_are_numbered_type_after_type_with_the_target_first(inputs):
    graph = build(inputs)
    assert graph.target == inputs.target
    assert dict(graph.node_types) == inputs.num_nodes
    assert graph.num_targets == inputs.num_nodes[inputs.target] == len(graph.labels)
    for kind, start in offsets(inputs.num_nodes, inputs.target).items():
        assert graph.nodes_of(kind) == range(start, start + inputs.num_nodes[kind])
    for kind, matrix in inputs.features.items():
        found = graph.features if kind == graph.target else graph.other_features[kind]
        np.testing.assert_array_equal(found, matrix)
    for row in range(graph.num_nodes):
        part = graph.indices[graph.indptr[row] : graph.indptr[row + 1]]
        assert (np.diff(part) >= 0).all()


@settings(max_examples=60)
@given(inputs=typed_inputs(weighted=True))
def test_the_homogenised_adjacency_is_the_sum_over_relations_both_ways(inputs):
    graph = build(inputs)
    if not graph.is_typed:
        return
    expected = sum(dense_relation(inputs, tuple(each)) for each in graph.relations)
    rows = graph.adjacency().tocoo()
    found = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(found, (rows.row, rows.col), rows.data)
    np.testing.assert_allclose(found, expected + expected.T)


def test_a_single_type_and_relation_is_the_graph_of_its_edges():
    edges = [[0, 1, 1], [1, 2, 2]]
    graph = Graph.from_relations({CITES: edges}, labels=[0, 1, 0])
    plain = Graph.from_edges(edges, labels=[0, 1, 0])
    assert graph.edge_types is None
    assert not graph.is_typed
    assert graph.fingerprint() == plain.fingerprint()
    assert graph.node_types == {"paper": 3}
    assert [str(each) for each in graph.relations] == ["paper:cites:paper"]


def test_one_relation_with_its_way_back_is_that_relation():
    cites = np.array([[0, 1, 0], [1, 2, 2]])
    graph = Graph.from_relations({CITES: cites, ("paper", "rev_cites", "paper"): cites[::-1]})
    assert graph.fingerprint() == Graph.from_edges(cites).fingerprint()
    assert "left out paper:rev_cites:paper, which is the way back of paper:cites:paper" in (
        graph.steps
    )


def test_a_way_back_is_recognized_in_any_order_of_its_edges():
    writes = np.array([[0, 1, 1], [0, 0, 2]])
    back = writes[::-1][:, [2, 0, 1]]
    graph = made({WRITES: writes, ("paper", "rev_writes", "author"): back, CITES: [[0], [1]]})
    assert [each.name for each in graph.relations] == ["writes", "cites"]
    assert any("way back of author:writes:paper" in step for step in graph.steps)


@pytest.mark.parametrize("change", ["edges", "weights"])
def test_a_relation_that_says_something_else_backward_is_kept(change):
    writes = np.array([[0, 1, 1], [0, 0, 2]])
    back, weights = writes[::-1].copy(), {}
    if change == "edges":
        back[0, 0] = 1
    else:
        weights = {WRITES: [1, 2, 3], ("paper", "by", "author"): [3, 2, 1]}
    graph = made({WRITES: writes, ("paper", "by", "author"): back}, weights=weights)
    assert [each.name for each in graph.relations] == ["writes", "by"]


def test_steps_say_what_was_done_to_which_relation():
    graph = made({WRITES: [[0, 0, 1], [0, 0, 2]], CITES: [[0, 1, 1], [1, 1, 1]]}, steps=("read",))
    assert graph.steps == (
        "read",
        "author:writes:paper: merged 1 duplicate edges",
        "paper:cites:paper: dropped 2 self-loops",
        "stored 3 edges of 2 relations in both directions",
    )


def test_loops_and_duplicates_may_be_kept():
    graph = made(
        {WRITES: [[0, 0, 1], [0, 0, 2]], CITES: [[1], [1]]}, self_loops="keep", duplicates="count"
    )
    assert graph.edge_types.tolist().count(1) == graph.edge_types.tolist().count(3) == 1
    expected = np.zeros((5, 5))
    expected[0, 3] = expected[3, 0] = 2
    expected[2, 4] = expected[4, 2] = 1
    expected[1, 1] = 2  # along the relation and against it
    adjacency = graph.adjacency()
    adjacency.sum_duplicates()
    np.testing.assert_array_equal(adjacency.toarray(), expected)


def test_sparse_matrices_are_relations_and_count_their_nodes():
    matrix = sp.csr_array(([1.0, 2.0], ([0, 1], [0, 2])), shape=(4, 3))
    graph = Graph.from_relations({WRITES: matrix, CITES: [[0], [1]]}, target="paper")
    assert graph.node_types == {"paper": 3, "author": 4}
    dense = np.zeros((7, 7))
    dense[0, 3], dense[2, 4], dense[0, 1] = 1, 2, 1
    np.testing.assert_array_equal(graph.adjacency().toarray(), dense + dense.T)


def test_names_of_relations_may_be_written_with_colons():
    graph = made({"author:writes:paper": EDGES[WRITES], CITES: [[0], [1]]})
    assert graph.relations[0] == WRITES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": {"paper": 3}}, "author:writes:paper is between unknown types.*`author`"),
        (
            {"num_nodes": {"paper": 3, "author": 2, "venue": 4}},
            "`venue` has neither features nor edges",
        ),
        (
            {"num_nodes": {"paper": 2, "author": 2}, "features": {}},
            r"Edge 2 of the relation author:writes:paper names paper 2; expected numbers from 0 to",
        ),
        ({"num_nodes": {"paper": 3, "author": -2}}, "`author` has -2 nodes"),
        ({"target": "book"}, "target type is `book`; expected one of the types author, paper"),
        ({"target": None}, "target type is not named; expected one of"),
        ({"features": {"papper": np.ones((3, 2))}}, "unknown type `papper`"),
        ({"features": {"paper": np.ones((4, 2))}, "labels": [0, 1, 0]}, "`paper`: Features have 4"),
        ({"features": {"author": [[np.nan], [1]]}}, "`author`: Feature 0 of node 0 is nan"),
        ({"weights": {CITES: [1, 2]}}, r"paper:cites:paper: Weights have the shape \(2,\)"),
        ({"weights": {WRITES: [1, -2, 1]}}, "author:writes:paper: The weight of edge 1 is -2"),
        ({"weights": {("a", "b", "c"): [1]}}, "weights of an unknown relation a:b:c"),
        ({"labels": [0, 1]}, "names paper 2; expected numbers from 0 to 1"),
        ({"train": [5], "labels": [0, 1, 0]}, "train split holds node 5, outside"),
        ({"undirected": False}, "Directed edges were asked for"),
        ({"relations": {}}, "no relations"),
        ({"relations": {("author", "paper"): [[0], [0]]}}, "expected .source type, name"),
        ({"relations": {("author", "", "paper"): [[0], [0]]}}, "expected .source type, name"),
        ({"relations": {WRITES: [[0.5], [1]]}}, "author:writes:paper: Edges are of the type"),
        ({"relations": {WRITES: [[-1], [1]]}}, "names author -1"),
        ({"relations": {WRITES: [[0], [1]], "author:writes:paper": [[0], [1]]}}, "given twice"),
    ],
)
def test_what_does_not_fit_together_is_said_in_one_sentence(changes, message):
    with pytest.raises(GraphError, match=message) as caught:
        made(**changes)
    assert "\n" not in caught.value.message


def hetero_data(**papers):
    """Two types, as PyG has them; `ToUndirected` has added the ways back."""
    from torch_geometric.data import HeteroData
    from torch_geometric.transforms import ToUndirected

    data = HeteroData()
    data["author"].num_nodes = 3
    data["paper"].x = torch.eye(4)
    for name, value in papers.items():
        setattr(data["paper"], name, value)
    data[WRITES].edge_index = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 3]])
    data[CITES].edge_index = torch.tensor([[0, 1], [1, 2]])
    return ToUndirected(merge=False)(data)


def test_hetero_data_becomes_a_typed_graph_without_ways_back():
    masks = torch.eye(4, dtype=torch.bool)
    data = hetero_data(
        y=torch.tensor([0, 1, 0, 1]), train_mask=masks[0] | masks[1], val_mask=masks[2],
        test_mask=masks[3],
    )  # fmt: skip
    assert len(data.edge_types) == 4
    graph = Graph.from_pyg(data)
    expected = Graph.from_relations(
        {WRITES: [[0, 1, 2, 2], [0, 1, 1, 3]], CITES: np.array([[0, 1], [1, 2]])},
        features={"paper": np.eye(4)}, labels=[0, 1, 0, 1], target="paper",
        train=[0, 1], valid=[2], test=[3],
    )  # fmt: skip
    assert graph.fingerprint() == expected.fingerprint()
    assert sum("way back" in step for step in graph.steps) == 2


def test_masks_of_several_splits_are_chosen_by_number():
    masks = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=torch.bool)
    data = hetero_data(y=torch.tensor([0, 1, 0, 1]), train_mask=masks)
    assert Graph.from_pyg(data, split=1).train.tolist() == [2, 3]
    with pytest.raises(GraphError, match="Split 2 was asked for"):
        Graph.from_pyg(data, split=2)


def test_anything_with_the_attributes_of_hetero_data_will_do():
    stores = {
        "author": SimpleNamespace(),
        "paper": SimpleNamespace(y=np.array([0, 1, 0])),
        WRITES: SimpleNamespace(
            edge_index=np.array([[0, 5], [0, 2]]), edge_weight=np.array([1.0, 2.0])
        ),
    }

    class Data:
        node_types = ("author", "paper")
        edge_types = (WRITES,)

        def __getitem__(self, key):
            return stores[key]

    graph = Graph.from_pyg(Data(), class_names=["a", "b"])
    assert graph.node_types == {"paper": 3, "author": 6}
    assert graph.weights.tolist() == [1, 2, 1, 2]
    assert graph.class_names == ("a", "b")


def test_the_target_of_hetero_data_must_be_clear():
    with pytest.raises(GraphError, match="No type has labels") as caught:
        Graph.from_pyg(hetero_data())
    assert "target=" in caught.value.hint
    assert Graph.from_pyg(hetero_data(), target="author").target == "author"
    with pytest.raises(GraphError, match="target type is `book`"):
        Graph.from_pyg(hetero_data(), target="book")
    both = hetero_data(y=torch.zeros(4, dtype=torch.long))
    both["author"].y = torch.zeros(3, dtype=torch.long)
    with pytest.raises(GraphError, match="author and paper have labels"):
        Graph.from_pyg(both)


def test_relations_of_hetero_data_without_edges_are_refused():
    data = hetero_data(y=torch.zeros(4, dtype=torch.long))
    del data[CITES].edge_index
    data[CITES].edge_attr = torch.ones(2, 1)
    with pytest.raises(GraphError, match="paper:cites:paper has no `edge_index`"):
        Graph.from_pyg(data)


def test_a_target_is_refused_for_data_of_one_type():
    with pytest.raises(GraphError, match="has one type of nodes"):
        Graph.from_pyg(SimpleNamespace(edge_index=np.array([[0], [1]])), target="paper")


def test_a_triple_by_itself_is_one_relation():
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    graph = Graph.from_relations({writes: [[0], [1]], cites: [[0, 1], [1, 2]]}, target="paper")
    assert graph.only(writes).num_edges == 2
    assert graph.only([cites]).num_edges == graph.only("cites").num_edges == 4
    assert graph.only([writes, "cites"]).num_edges == 6


def test_hetero_data_without_anything_is_refused_in_one_sentence():
    empty = SimpleNamespace(node_types=[], edge_types=[])
    with pytest.raises(GraphError, match="has no edges"):
        Graph.from_pyg(empty)

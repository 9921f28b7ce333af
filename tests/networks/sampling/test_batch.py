import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.networks.sampling.references import global_edges, small_graph
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

from scr.errors import SCRError
from scr.graph import Graph
from scr.networks.sampling import NeighborSampler, SaintSampler


def test_the_view_of_pyg_has_the_same_edges():
    batch = NeighborSampler(small_graph(), (2, 2)).sample([0, 7])
    data = batch.to_pyg()
    sources, targets = data.n_id[data.edge_index].numpy()
    np.testing.assert_array_equal(np.stack([targets, sources], axis=1), global_edges(batch))
    np.testing.assert_array_equal(data.e_id.numpy(), batch.edges)
    assert data.batch_size == 2
    assert data.input_id.tolist() == [0, 7]
    assert data.num_nodes == batch.num_nodes
    data.validate()


def test_hops_of_the_view_add_up_as_in_pyg():
    batch = NeighborSampler(small_graph(), (2, 1)).sample([0])
    data = batch.to_pyg()
    assert data.num_sampled_nodes[0] == 1
    assert data.num_sampled_edges == [2, batch.num_edges - 2]
    assert sum(data.num_sampled_nodes) == batch.num_nodes


def test_pyg_layers_on_trimmed_views_give_what_the_full_graph_gives():
    torch.manual_seed(0)
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 60, (2, 150)), num_nodes=60)
    layers = [SAGEConv(8, 8), SAGEConv(8, 8)]
    features = torch.randn(60, 8)
    rows = np.repeat(np.arange(60), np.diff(graph.indptr))
    everywhere = torch.from_numpy(np.stack([graph.indices.astype(np.int64), rows]))
    data = NeighborSampler(graph, (-1, -1)).sample([9, 4, 33]).to_pyg()
    full, part, edges = features, features[data.n_id], data.edge_index
    for number, layer in enumerate(layers):
        full = layer(full, everywhere)
        part, edges, _ = trim_to_layer(
            number, data.num_sampled_nodes, data.num_sampled_edges, part, edges
        )
        part = layer(part, edges)
    torch.testing.assert_close(part[: data.batch_size], full[[9, 4, 33]])


def test_normalizers_are_in_the_view():
    batch = SaintSampler(small_graph(), "walk", 2).sample(0)
    data = batch.to_pyg()
    np.testing.assert_array_equal(data.edge_weight.numpy(), batch.edge_weight)
    np.testing.assert_array_equal(data.node_weight.numpy(), batch.node_weight)
    assert data.batch_size == batch.num_nodes


def test_a_missing_torch_geometric_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(
        SCRError, match=r"needs torch_geometric.*\n\nhint: .*install torch-geometric"
    ):
        NeighborSampler(small_graph(), (2,)).sample([0]).to_pyg()


def test_samplers_work_without_torch():
    code = (
        "import sys; import scr.networks.sampling as s; [getattr(s, name) for name in s.__all__]; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error():
    import scr.networks.sampling

    with pytest.raises(AttributeError, match="no attribute 'Sampler'"):
        scr.networks.sampling.Sampler  # noqa: B018
    assert set(scr.networks.sampling.__all__) <= set(dir(scr.networks.sampling))

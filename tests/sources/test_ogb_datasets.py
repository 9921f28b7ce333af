import pytest
from tests.sources.readers.ogb_files import random_arrays, write_arxiv

from scr.errors import SourceError
from scr.sources import OGB_DATASETS, data_folder, load_graph
from scr.sources._formats import RECOGNIZED


def test_the_table_has_the_addresses_of_ogbs_own_list():
    # From ogb/nodeproppred/master.csv, with https for http.
    start = "https://snap.stanford.edu/ogb/data/nodeproppred/"
    assert {name: each.url.removeprefix(start) for name, each in OGB_DATASETS.items()} == {
        "ogbn-products": "products.zip",
        "ogbn-arxiv": "arxiv.zip",
        "ogbn-mag": "mag.zip",
        "ogbn-papers100M": "papers100M-bin.zip",
    }
    assert all(name in RECOGNIZED[-1] for name in OGB_DATASETS)


def test_a_name_is_found_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SCR_DATA", str(tmp_path))
    write_arxiv(tmp_path / "ogbn_arxiv", random_arrays())
    graph = load_graph("ogbn-arxiv")
    assert graph.name == "ogbn-arxiv"
    assert graph.num_nodes == 30


@pytest.mark.parametrize("name", OGB_DATASETS)
def test_a_name_that_is_not_there_says_how_to_get_it(tmp_path, monkeypatch, name):
    monkeypatch.setenv("SCR_DATA", str(tmp_path / "data"))
    with pytest.raises(SourceError, match=f"`scr download {name}`"):
        load_graph(name)


def test_a_folder_of_the_same_name_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("SCR_DATA", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    write_arxiv(tmp_path / "ogbn-arxiv", random_arrays(nodes=15))
    assert load_graph("ogbn-arxiv").num_nodes == 15


def test_the_data_folder_is_below_the_home_folder_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("SCR_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "scr" / "data"
    monkeypatch.setenv("SCR_DATA", "~/elsewhere")
    assert data_folder() == tmp_path / "elsewhere"

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scr.propagation import (
    PropagationConfig,
    cached_hops_path,
    kept_rows,
    load_cached_hops,
    propagate,
)
from scr.sources import load_graph

CONFIG = PropagationConfig(hops=2)


@pytest.fixture
def stored(tmp_path, random_graph):
    return load_graph(str(random_graph().save(tmp_path / "store")))


def test_hops_beside_a_store_are_found_with_the_same_settings(stored):
    assert load_cached_hops(stored, CONFIG) is None
    made = propagate(stored, 2, out=cached_hops_path(stored, CONFIG))
    found = load_cached_hops(stored, CONFIG)
    assert found is not None
    assert np.array_equal(np.asarray(found), np.asarray(made))
    # Settings of labels do not change what the hops are.
    assert load_cached_hops(stored, replace(CONFIG, label_hops=2)) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"hops": 3}, {"norm": "row"}, {"self_loops": True}, {"direction": "in"},
        {"dtype": "float16"}, {"hop_scale": "unit"},
    ],
)  # fmt: skip
def test_other_settings_do_not_find_them(stored, change):
    propagate(stored, 2, out=cached_hops_path(stored, CONFIG))
    assert load_cached_hops(stored, replace(CONFIG, **change)) is None


def test_other_features_do_not_find_them(stored):
    propagate(stored, 2, out=cached_hops_path(stored, CONFIG))
    assert load_cached_hops(stored, CONFIG, ("rows scaled to length 1",)) is None
    changed = replace(stored, features=np.asarray(stored.features) + 1)
    assert load_cached_hops(changed, CONFIG) is None


def test_other_labels_and_splits_do_find_them(stored):
    propagate(stored, 2, out=cached_hops_path(stored, CONFIG))
    changed = replace(stored, labels=np.asarray(stored.labels)[::-1].copy(), train=stored.test)
    assert load_cached_hops(changed, CONFIG) is not None


def test_damaged_hops_count_as_none(stored):
    path = cached_hops_path(stored, CONFIG)
    propagate(stored, 2, out=path)
    (path / "hops.npy").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"hops\.npy` is truncated.*made again"):
        assert load_cached_hops(stored, CONFIG) is None


def test_a_graph_without_a_store_has_no_place_for_hops(random_graph):
    assert cached_hops_path(random_graph(), CONFIG) is None
    assert load_cached_hops(random_graph(), CONFIG) is None


def test_hops_of_some_rows_are_found_where_they_hold_all_that_are_asked_for(stored):
    stored = replace(stored, test=np.asarray(stored.test)[::2])
    kept = kept_rows(stored, "labeled")
    some = cached_hops_path(stored, CONFIG, rows=kept)
    assert some.name.startswith(cached_hops_path(stored, CONFIG).name + "-rows")
    propagate(stored, 2, out=some, rows=kept)
    found = load_cached_hops(stored, CONFIG)
    assert np.array_equal(found.nodes_kept, kept)
    assert load_cached_hops(stored, CONFIG, nodes=kept[:3]).path == some
    fewer = cached_hops_path(stored, CONFIG, rows=kept[:5])
    propagate(stored, 2, out=fewer, rows=kept[:5])
    assert load_cached_hops(stored, CONFIG, nodes=kept[:3]).path == fewer
    assert load_cached_hops(stored, CONFIG).path == some
    outside = np.setdiff1d(np.arange(stored.num_nodes), kept)
    assert load_cached_hops(stored, CONFIG, nodes=outside[:1]) is None
    propagate(stored, 2, out=cached_hops_path(stored, CONFIG))
    assert load_cached_hops(stored, CONFIG).nodes_kept is None


def test_without_nodes_to_ask_for_only_hops_of_all_rows_are_found(stored):
    propagate(stored, 2, out=cached_hops_path(stored, CONFIG, rows=np.arange(5)), rows=np.arange(5))
    assert load_cached_hops(stored, CONFIG, nodes=np.zeros(0, np.int64)) is None

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scr.graph import load_graph
from scr.propagation import (
    PropagationConfig,
    cached_hops_path,
    load_cached_hops,
    propagate,
)

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
    assert load_cached_hops(stored, CONFIG) is None


def test_a_graph_without_a_store_has_no_place_for_hops(random_graph):
    assert cached_hops_path(random_graph(), CONFIG) is None
    assert load_cached_hops(random_graph(), CONFIG) is None

"""Runs of SCR, SCR-m and the base are what they were before other regularizers came beside them.

The numbers of the base and of SCR were recorded with the loop that knew SCR alone, those of SCR-m
when its teacher came to start at the end of the warm-up. Names of runs are exact: a recorded
comparison must find its runs again, and none of SCR-m with the earlier teacher.
"""

import pytest

from scr.runs import run_identity
from scr.training import fit, graph_facts, resolve

SETTINGS = {
    "training": {"epochs": 6, "select": "last", "patience": 0, "evaluate_every": 2,
                 "batch_size": 5, "unlabeled_per_batch": 20},
    "consistency": {"warmup": 1, "threshold": 0.4, "refresh": 2, "trust": "full"},
}  # fmt: skip
RECORDED = {
    "none": ("9c44ec1c5bf41775", 0.8092236717542013, 0.0, 0),
    "scr": ("5b97bdc58560d4ec", 0.3525105764468511, 0.16196960707505545, 47),
    "scr-m": ("99e591327e3cf10e", 0.9089158773422241, 0.1938001016775767, 48),
}
"""Name, both losses of the last epoch, and how many nodes were confident."""


@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
def test_a_run_is_the_recorded_one(regularizer, random_graph):
    graph = random_graph()
    recipe = resolve(graph_facts(graph), encoder="sign", regularizer=regularizer, layers=[SETTINGS])
    record = fit(graph, recipe, seed=2).outcome.history[-1]
    name, supervised, consistency, confident = RECORDED[regularizer]
    assert run_identity(graph, recipe, 2) == name
    assert record["supervised_loss"] == pytest.approx(supervised, rel=1e-4)
    assert record["consistency_loss"] == pytest.approx(consistency, rel=1e-4)
    assert record["confident_nodes"] == confident

"""Names of runs: the same for the same, another for everything that decides a result."""

from scr.runs import run_identity
from scr.training import graph_facts, resolve


def named(graph, *special, seed=0, **sections):
    recipe = resolve(graph_facts(graph), encoder="ssgc", layers=[sections])
    return run_identity(graph, recipe, seed, *special)


def test_every_setting_the_seed_and_the_graph_have_a_part_in_the_name(random_graph):
    graph = random_graph()
    names = [
        named(graph),
        named(graph, seed=1),
        named(graph, "rows 7"),
        named(graph, data={"embedding_seed": 3}),
        named(graph, consistency={"refresh_sample": 10}),
        named(random_graph(seed=5)),
    ]
    assert len(set(names)) == len(names)
    assert named(graph) == names[0]

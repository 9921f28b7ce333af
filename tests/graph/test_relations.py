import pytest

from scr.errors import GraphError
from scr.graph import Relation, edge_code, find_relation

RELATIONS = (
    Relation("author", "writes", "paper"),
    Relation("paper", "cites", "paper"),
    Relation("patent", "cites", "paper"),
)


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        ("writes", 0),
        ("author:writes:paper", 0),
        (("author", "writes", "paper"), 0),
        (RELATIONS[1], 1),
        ("patent:cites:paper", 2),
    ],
)
def test_relations_are_found_by_name_text_or_triple(wanted, number):
    assert find_relation(RELATIONS, wanted) == number


def test_a_name_that_several_relations_have_is_refused():
    with pytest.raises(GraphError, match="may be paper:cites:paper and patent:cites:paper") as told:
        find_relation(RELATIONS, "cites")
    assert "SOURCE:NAME:TARGET" in told.value.hint


@pytest.mark.parametrize(
    ("wanted", "meant"), [("writs", "writes"), ("paper:cite:paper", "paper:cites:paper")]
)
def test_a_name_that_no_relation_has_is_refused_with_the_nearest_one(wanted, meant):
    with pytest.raises(GraphError, match=f"no relation `{wanted}`.*author:writes:paper") as told:
        find_relation(RELATIONS, wanted)
    assert told.value.hint == f"did you mean `{meant}`?"


def test_nothing_is_guessed_where_nothing_is_near():
    with pytest.raises(GraphError) as told:
        find_relation(RELATIONS, "xyz")
    assert told.value.hint is None


def test_the_code_against_a_relation_comes_after_all_relations():
    assert edge_code(RELATIONS, "writes") == 0
    assert edge_code(RELATIONS, "^writes") == 3
    assert edge_code(RELATIONS, "^patent:cites:paper") == 5
    assert edge_code(RELATIONS, ("paper", "cites", "paper")) == 1

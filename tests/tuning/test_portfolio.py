"""The settings that are tried on every graph."""

import pytest

from scr.errors import ConfigError
from scr.tuning import portfolio, read_portfolio


def test_what_no_options_give_comes_first(random_graph):
    import scr

    graph = random_graph()
    first = portfolio(graph)[0]
    tables, plain = first.recipe.tables(), scr.NodeClassifier().resolve(graph).tables()
    # Members are weighed against each other and calibrated together, not one by one.
    tables.pop("postprocess")
    tables["consistency"].pop("trust"), plain["consistency"].pop("trust")
    assert tables == plain
    assert first.handicap == 0


@pytest.mark.parametrize("typed", [False, True])
def test_every_member_is_a_valid_recipe_of_its_own(random_graph, typed):
    graph = random_graph()
    tables = read_portfolio(typed=typed)
    if typed:
        assert {"nars-sign", "rgcn"} <= {
            each.get("encoder", {}).get("name") for each in tables.values()
        }
        return
    members = portfolio(graph)
    settings = [str(each.recipe.tables()) for each in members]
    assert len(set(settings)) == len(settings) >= 8
    assert any(each.recipe.regularizer == "none" for each in members)
    assert {"sgc"} <= {each.recipe.encoder for each in members}  # the floor


def test_what_the_user_sets_all_members_keep(random_graph):
    graph = random_graph()
    layers = [{"training": {"epochs": 7}, "encoder": {"name": "gamlp", "hidden": 12}}]
    members = portfolio(graph, layers=layers, regularizer="none")
    assert members
    for member in members:
        tables = member.recipe.tables()
        assert (member.recipe.encoder, member.recipe.regularizer) == ("gamlp", "none")
        assert (tables["training"]["epochs"], tables["encoder"]["hidden"]) == (7, 12)


def test_wrong_settings_are_refused_and_not_skipped(random_graph):
    with pytest.raises(ConfigError, match="epochs"):
        portfolio(random_graph(), layers=[{"training": {"epochs": -1}}])


def test_a_member_with_another_encoder_does_not_read_what_was_chosen_for_the_first(
    random_graph, monkeypatch
):
    from scr.training.presets._auto import Choice

    tables = {"encoder": {"name": "ssgc", "mixture": "last"}, "propagation": {"hops": 3}}
    monkeypatch.setattr("scr.tuning._portfolio.choose", lambda graph: Choice(tables, ""))
    members = {each.name: each.recipe for each in portfolio(random_graph())}
    assert members["auto"].encoder_settings["mixture"] == "last"
    assert members["linear-2"].encoder == "sgc"
    assert members["linear-2"].propagation.hops == 2

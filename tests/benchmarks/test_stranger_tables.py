"""Tables and claims of a stranger's graph, of rows made by hand."""

import json

import pytest


def row(method, split, accuracy, balanced=None, labels="20", **more):
    balanced = accuracy if balanced is None else balanced
    return {"labels": labels, "split": split, "method": method, "test_accuracy": accuracy,
            "balanced_accuracy": balanced, **more}  # fmt: skip


@pytest.fixture
def store(benchmark_module, tmp_path, monkeypatch):
    tables = benchmark_module("stranger_tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)

    def write(graph, homophily, *rows):
        for kind in tables.KINDS:
            mine = [row for row in rows if tables.kind_of(row["method"]) == kind]
            facts = {"nodes": 10, "edges": 20, "classes": 2, "homophily": homophily}
            if mine:
                (tmp_path / kind).mkdir(exist_ok=True)
                content = {"settings": {"graph": facts}, "rows": mine}
                (tmp_path / kind / f"{graph}.json").write_text(json.dumps(content))

    return write


@pytest.fixture
def tables(benchmark_module):
    return benchmark_module("stranger_tables")


@pytest.fixture
def verdict(benchmark_module):
    return benchmark_module("stranger_verdict")


@pytest.fixture
def filled(store):
    store(
        "cora", 0.81,
        row("scr", 0, 0.84, 0.80), row("scr", 1, 0.86, 0.82), row("base", 0, 0.82, 0.81),
        row("base", 1, 0.83, 0.82), row("sgc", 0, 0.80), row("sgc", 1, 0.82),
        row("gcn", 0, 0.81), row("gcn", 1, 0.83), row("appnp", 0, 0.87), row("appnp", 1, 0.87),
    )  # fmt: skip
    store(
        "wordnet", 0.71,
        row("scr", 0, 0.60), row("sgc", 0, 0.50), row("gcn", 0, 0.55),
        {"labels": "20", "split": 0, "method": "appnp", "over_limit": 900},
    )  # fmt: skip
    store(
        "actor", 0.22,
        row("scr", 0, 0.35), row("scr", 0, 0.33, labels="5"), row("sgc", 0, 0.25),
        row("sgc", 0, 0.34, labels="5"), row("gcn", 0, 0.27), row("boosting", 0, 0.36),
    )  # fmt: skip


def cells(line):
    return [each.strip() for each in line.strip("|").split("|")]


def test_a_table_has_a_graph_per_line_by_homophily_and_the_best_in_bold(tables, filled):
    header, _, cora, wordnet, actor, *_ = tables.table(tables.read("20"))
    assert cells(header) == ["graph", "homophily", "`scr`", "`base`", "`boosting`", "`sgc`",
                             "`gcn`", "`appnp`"]  # fmt: skip
    assert cells(cora) == [
        "cora", "0.81", "85.0 ± 1.4 (81.0)", "82.5 ± 0.7 (81.5)", "", "81.0 ± 1.4 (81.0)",
        "82.0 ± 1.4 (82.0)", "**87.0 ± 0.0 (87.0)**",
    ]  # fmt: skip
    assert cells(wordnet) == [
        "wordnet *", "0.71", "**60.0 (60.0)**", "", "", "50.0 (50.0)", "55.0 (55.0)", "over 900 s",
    ]  # fmt: skip
    assert cells(actor)[:5] == ["actor", "0.22", "35.0 (35.0)", "", "**36.0 (36.0)**"]


def test_means_of_methods_that_lack_graphs_are_differences_on_the_others(tables, filled):
    *_, alike, unlike, ranks = map(cells, tables.table(tables.read("20")))
    assert alike == [
        "mean, homophily of 0.6 or more", "", "**72.5 (70.5)**", "-2.5 to `scr`, 1 of 2 graphs",
        "", "65.5 (65.5)", "68.5 (68.5)", "+2.0 to `scr`, 1 of 2 graphs",
    ]  # fmt: skip
    assert unlike[2:6] == ["35.0 (35.0)", "", "**36.0 (36.0)**", "25.0 (25.0)"]
    # scr is second, first and second; gcn fourth, second and third.
    assert ranks[:3] == ["mean rank", "", "1.7"]
    assert ranks[6] == "3.0"
    assert ranks[7] == "1.0, 1 of 3 graphs"


def test_one_table_for_each_number_of_labels_that_was_run(tables, filled):
    titles = [line for line in tables.stranger_lines() if line.startswith("#")]
    assert titles == ["## With no options", "### 20 labels per class", "### 5 labels per class"]
    assert tables.titled("10%") == "10% of all labels"


def test_the_headline_has_means_of_graphs_that_every_peer_was_run_on(tables, store):
    others = ("logistic", "boosting", "sgc", "c&s")
    store("cora", 0.81, row("scr", 0, 0.84), row("gcn", 0, 0.80), row("appnp", 0, 0.82),
          *(row(each, 0, 0.5) for each in others))  # fmt: skip
    store("acm", 0.82, row("scr", 0, 0.90), row("gcn", 0, 0.91), row("appnp", 0, 0.88),
          *(row(each, 0, 0.5) for each in others))  # fmt: skip
    store("wordnet", 0.71, row("scr", 0, 0.6), row("gcn", 0, 0.7))
    *_, only = (cells(line) for line in tables.headline_lines() if line.startswith("|"))
    # gcn has (80 + 91) / 2, appnp (82 + 88) / 2; the best of each graph 82 and 91.
    assert only == ["20 labels per class", "2, neighbors alike", "87.0 (87.0)",
                    "85.5 (85.5) `gcn`", "86.5 (86.5)", "1 of 2"]  # fmt: skip


def test_without_our_rows_their_cells_are_empty(tables, store):
    store("cora", 0.81, row("sgc", 0, 0.8))
    assert tables.headline_lines() == []
    assert cells(tables.table(tables.read("20"))[2])[2:] == ["", "**80.0 (80.0)**"]


def test_without_rows_there_are_no_tables(tables, verdict, store):
    assert tables.headline_lines() == tables.stranger_lines() == []
    assert verdict.verdict_lines().count(verdict.NOTHING) == 6


def test_differences_are_over_splits_that_both_have(tables):
    rows = [row("scr", 0, 0.5), row("scr", 1, 0.9), row("sgc", 1, 0.8), row("sgc", 2, 0.1)]
    measured = tables.Measured("cora", {"homophily": 0.8}, rows)
    assert measured.difference("scr", "sgc") == pytest.approx(0.1)
    assert measured.difference("scr", "gcn") is None


def test_the_verdict_names_what_is_below_and_by_how_much(verdict, filled):
    lines = verdict.verdict_lines()
    sections = {}
    for line in lines:
        if not line.startswith(" "):
            sections[line[0]] = current = []
        else:
            current.append(line.strip())
    assert sections["a"] == ["actor, 5 labels: -1.0 to sgc", "1 of 4 comparisons"]
    assert sections["b"] == [
        "cora: -2.0 to appnp", "wordnet: +5.0 to gcn",
        "mean over graphs, to the best of each: +1.5",
        "mean over 2 graphs, to sgc: +7.0",
        "mean over 2 graphs, to gcn: +4.0, the best single peer",
        "mean over 1 graphs, to appnp: -2.0",
    ]  # fmt: skip
    assert sections["c"] == [
        "actor: -1.0 to boosting", "mean over graphs, to the best of each: -1.0",
        "mean over 1 graphs, to boosting: -1.0, the best single peer",
        "mean over 1 graphs, to gcn: +8.0",
    ]  # fmt: skip
    assert sections["d"] == [
        "20 labels, cora: +2.5 accuracy, -0.5 balanced accuracy",
        "20 labels, mean over 1 graphs: +2.5 accuracy, -0.5 balanced accuracy",
    ]
    assert sections["e"] == sections["f"] == ["no rows yet"]


def test_calibration_errors_are_averaged_over_graphs(verdict, store):
    store("cora", 0.8, row("scr", 0, 0.8, calibration_error=0.02),
          row("scr", 1, 0.8, calibration_error=0.04))  # fmt: skip
    store("acm", 0.8, row("scr", 0, 0.8, calibration_error=0.07))
    assert verdict.verdict_lines()[-1] == "    20 labels, scr: 0.050 over 2 graphs"

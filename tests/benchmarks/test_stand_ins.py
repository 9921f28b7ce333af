"""The benchmark of all recipes on generated graphs: what is compared with what, and its table."""

import json

import pytest

from scr.recipes import read_recipe, recipe_names


@pytest.fixture
def stand_ins(benchmark_module):
    return benchmark_module("stand_ins")


@pytest.fixture
def tables(benchmark_module, tmp_path, monkeypatch):
    module = benchmark_module("stand_in_tables")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("zhang-2021-scr-gamlp-products", "zhang-2022-base-gamlp-products"),
        ("zhang-2021-scr-m-gamlp-products-as-code", "zhang-2022-base-gamlp-products"),
        ("zhang-2021-rlu-scr-gamlp-products", "zhang-2022-rlu-gamlp-products"),
        ("zhang-2022-rlu-nars-gamlp-mag", "zhang-2022-base-nars-gamlp-mag"),
        (
            "zhang-2021-scr-m-gamlp-papers100m",  # of another encoder than the published base
            "zhang-2021-scr-m-gamlp-papers100m without its term",
        ),
        ("zhang-2021-scr-mlp-products", "zhang-2021-base-mlp-products"),  # Table 5, not Table 2
        (
            "zhang-2021-scr-sagn-giant-products",
            "zhang-2021-scr-sagn-giant-products without its term",
        ),
        (
            "zhang-2021-rlu-scr-gamlp-cs-products",
            "zhang-2021-rlu-scr-gamlp-cs-products without its term",
        ),
        ("chien-2021-sle-sagn-giant-products", None),
        ("hu-2020-base-gcn-products", None),
    ],
)
def test_a_recipe_is_compared_with_the_row_without_its_method(stand_ins, name, base):
    assert stand_ins.plan([name])[name][1] == base


def test_every_recipe_and_every_baseline_is_run_once(stand_ins):
    planned = stand_ins.plan(recipe_names())
    assert set(recipe_names()) <= set(planned)
    assert {base for _, base in planned.values() if base is not None} <= set(planned)


def test_without_its_term_a_recipe_keeps_stages_and_smoothing(stand_ins):
    recipe = read_recipe("zhang-2021-rlu-scr-gamlp-cs-products")
    bare = stand_ins.without_term(recipe)
    assert bare.regularizer == "none"
    assert "consistency" not in bare.tables
    for section in ("stages", "postprocess", "training", "encoder"):
        assert bare.tables[section] == recipe.tables[section]


def test_recipes_that_differ_by_smoothing_alone_are_trained_once(stand_ins):
    names = [
        "zhang-2021-scr-sagn-giant-products",
        "zhang-2021-scr-m-sagn-giant-products",
        "zhang-2021-scr-sagn-giant-cs-products",
    ]
    groups = stand_ins.trained_once(read_recipe(name) for name in names)
    assert [[each.name for each in group] for group in groups] == [[names[2], names[0]], [names[1]]]


@pytest.mark.parametrize("smoothed", [True, False])
def test_a_smoothed_recipe_is_recorded_after_smoothing(stand_ins, smoothed):
    before = {"valid_accuracy": 0.5, "test_accuracy": 0.4, "balanced_accuracy": 0.3}
    after = {"valid_accuracy": 0.8, "test_accuracy": 0.7, "balanced_accuracy": 0.6}
    record = {"seed": 0, **before, "smooth": after, "confident_nodes": [10, 40, 20]}
    row = stand_ins.kept(record, 100, smoothed)
    assert {name: row[name] for name in after} == (after if smoothed else before)
    assert row["confident"] == {"first": 0.1, "median": 0.2, "last": 0.2}


def write(folder, rows):
    content = {"command": "python it.py", "settings": {"seeds": 2}, "rows": rows}
    (folder / "stand_ins.json").write_text(json.dumps(content))


def row(name, base, tests, **values):
    runs = [
        {"seed": seed, "valid_accuracy": test, "test_accuracy": test, "balanced_accuracy": 0.5,
         "train_seconds": 1.0, **values}
        for seed, test in enumerate(tests)
    ]  # fmt: skip
    return {"name": name, "baseline": base, "dataset": "ogbn-mag", "published": 50.0, "runs": runs}


def test_without_results_there_is_no_table(tables):
    assert tables.stand_in_lines() == []


def test_rows_say_what_the_term_did_and_by_how_much_it_helped(tables, tmp_path):
    term = {
        "acted": True, "epochs": 4, "acting_epochs": 3,
        "student_valid_accuracy": 0.80, "teacher_valid_accuracy": 0.81,
    }  # fmt: skip
    shares = {"first": 0.1, "median": 0.3, "last": 0.5}
    write(
        tmp_path,
        [
            row("plain", None, [0.80, 0.82]),
            row("with", "plain", [0.82, 0.84], consistency=term, confident=shares),
        ],
    )
    lines = tables.stand_in_lines()
    assert "| `plain` | 50.00 | 81.0 ± 1.4 (50.0) |  |  |  |  |  |  |" in lines
    [line] = [line for line in lines if line.startswith("| `with`")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:4] == ["83.0 ± 1.4 (50.0)", "81.0 ± 1.4 (50.0)"]
    assert cells[4].startswith("+2.0")
    assert cells[5].startswith("+0.0")
    assert cells[6:] == ["10%, 30%, 50%", "75%", "+1.0"]
    assert "Of the rows with a baseline, 1 is higher, 0 are lower, 0 are within noise." in lines


def test_a_term_without_a_part_in_the_result_is_named(tables, tmp_path):
    term = {"acted": False, "epochs": 4, "acting_epochs": 0}
    write(
        tmp_path,
        [row("plain", None, [0.80, 0.82]), row("with", "plain", [0.7, 0.84], consistency=term)],
    )
    [said] = [line for line in tables.stand_in_lines() if "no part" in line]
    assert "`with` in 2 of 2 runs" in said
    assert "1 is within noise" in said

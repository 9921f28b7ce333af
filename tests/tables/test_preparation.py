"""Columns become features as worked by hand or as scikit-learn does, and the same after a save."""

import datetime
import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from scr.errors import ConfigError, SourceError, StoreError
from scr.tables import Preparation
from scr.tables.columns._texts import weigh

WORDS = ["red", "blue", "small", "large", "car", "boat", "old", "new"]


def fitted(cells, kind=None, **more):
    kinds = {} if kind is None else {"x": kind}
    return Preparation.fit(pa.table({"x": cells}), kinds=kinds, **more)


def features(cells, kind=None):
    return fitted(cells, kind).transform(pa.table({"x": cells}))


def kind_of(cells):
    preparation = fitted(cells)
    return preparation.columns[0].kind if preparation.columns else "drop"


def test_numbers_are_filled_with_the_median_and_standardized():
    preparation = fitted(["1", "", "3", "8", "NA"])
    (column,) = preparation.columns
    assert (column.kind, column.names) == ("number", ("x", "x missing"))
    assert column.parameters["median"] == 3
    filled = np.array([1, 3, 3, 8, 3.0])
    expected = (filled - 4) / np.std([1, 3, 8])  # the mean of 1, 3 and 8 is 4
    matrix = preparation.transform(pa.table({"x": ["1", "", "3", "8", "NA"]}))
    np.testing.assert_allclose(matrix, np.stack([expected, [0, 1, 0, 0, 1]], axis=1), rtol=1e-6)
    assert preparation.describe() == ["x: number, 2 missing"]


def test_heavy_tails_become_logarithms_of_the_distance_to_the_median():
    cells = [0.0, 1, 2, 3, 4, 5, 6, 7, 1e9]  # median 4, quartiles 2 and 6
    curved = np.sign(np.array(cells) - 4) * np.log1p(np.abs(np.array(cells) - 4) / 4)
    expected = (curved - curved.mean()) / curved.std()
    np.testing.assert_allclose(features(cells)[:, 0], expected, rtol=1e-6)


def test_counts_that_are_mostly_0_stay_as_they_are():
    cells = [0, 0, 0, 0, 0, 0, 0, 3, 0, 1]
    assert features(cells)[:, 0].tolist() == cells
    large = [0.0] * 9 + [100.0]
    assert features(large)[:9].tolist() == [[0.0]] * 9
    assert 0 < features(large)[9, 0] <= 10


def test_numbers_written_with_commas_and_words_for_missing_ones_are_read():
    assert kind_of(["1,5", "2", "3,25", "1.000,5"]) == "number"
    np.testing.assert_allclose(
        features(["1,5", "2", "3,25", "1.000,5"]), features([1.5, 2, 3.25, 1000.5])
    )
    np.testing.assert_allclose(features(["1,500", "2", "3,250"]), features([1500, 2, 3250]))
    np.testing.assert_allclose(
        features(["1.234,50", "99,5", "1.234", "-1.234.567", "2.5"]),
        features([1234.5, 99.5, 1234, -1234567, 2.5]),
    )
    np.testing.assert_allclose(features(["1.234", "99.5"]), features([1.234, 99.5]))
    cells = ["1", "2", "3", "4", "5", "6", "?", "8"]
    preparation = fitted(cells)
    assert preparation.names == ("x", "x missing")
    assert "missing where it says '?'" in preparation.describe()[0]
    with pytest.raises(SourceError, match="1 cells such as 'many' in row 2; expected numbers"):
        preparation.transform(pa.table({"x": ["?", "many"]}))


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "x", "y", "", "z"] * 4, "category"),
        (["yes", "no", "Yes", ""], "boolean"),
        (["t", "f", "f"], "boolean"),
        ([True, False, None], "boolean"),
        (["2020-01-01", "2021-05-31T10:00:00", ""], "date"),
        (["31.12.2020", "1.2.2021"], "date"),
        (["12/31/2020", "01/02/2021"], "date"),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], "date"),
        (["007", "008", "007", "008"], "category"),
        (["red", "blue", "red", "blue"], "category"),
        (["a red car", "an old boat", "the new car here"], "text"),
        (list(range(100)), "drop"),
        ([str(number) for number in range(100, 200)], "drop"),
        (["5", "5", "5"], "drop"),
        (["5", "", "5"], "category"),
        ([f"user{number}" for number in range(60)], "drop"),
        ([None, None], "drop"),
        ([[1], [2]], "drop"),
    ],
)
def test_kinds_are_inferred(cells, kind):
    assert kind_of(cells) == kind


def test_categories_are_one_hot_and_rare_or_unknown_ones_are_together():
    preparation = fitted(["red"] * 3 + ["blue"] * 2 + ["pink", None])
    assert preparation.names == ("x=red", "x=blue", "x=other", "x missing")
    matrix = preparation.transform(pa.table({"x": ["blue", "pink", "green", "", "red"]}))
    expected = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert matrix.tolist() == expected


def test_dates_become_days_and_angles():
    cells = ["2020-01-01", "2020-01-02", "2020-01-03"]
    preparation = fitted(cells)
    matrix = preparation.transform(pa.table({"x": cells}))
    by_name = dict(zip(preparation.names, matrix.T, strict=True))
    np.testing.assert_allclose(by_name["x days"], np.array([-1, 0, 1]) / np.sqrt(2 / 3), rtol=1e-6)
    angle = 2 * np.pi * np.arange(3) / 365.25
    np.testing.assert_allclose(by_name["x day of year sine"], np.sin(angle), atol=1e-6)
    weekday = 2 * np.pi * np.array([2, 3, 4]) / 7  # 1 January 2020 was a Wednesday
    np.testing.assert_allclose(by_name["x weekday cosine"], np.cos(weekday), atol=1e-6)
    typed = pa.table({"x": [datetime.datetime(2020, 1, day, 23) for day in (1, 2, 3)]})
    np.testing.assert_array_equal(preparation.transform(typed), matrix)


def test_text_has_the_weights_of_scikit_learn():
    generator = random.Random(0)
    cells = [" ".join(generator.choices(WORDS, k=6)) for _ in range(200)]
    expected = TfidfVectorizer(min_df=2).fit_transform(cells)
    preparation = fitted(cells, "text")
    (column,) = preparation.columns
    np.testing.assert_allclose(weigh(column, cells).toarray(), expected.toarray(), rtol=1e-12)
    assert preparation.names == tuple(f"x: {word}" for word in sorted(WORDS))
    matrix = preparation.transform(pa.table({"x": cells}))
    # One factor for all words, by which the largest deviation along singular directions is 1.
    left, values, _ = np.linalg.svd(expected.toarray(), full_matrices=False)
    scaled = expected.toarray() / (left * values).std(axis=0).max()
    np.testing.assert_allclose(matrix, scaled, rtol=1e-3)


def test_wide_text_keeps_its_products_in_fewer_columns():
    generator = random.Random(0)
    words = [f"w{number}" for number in range(1600)]
    topics = [words[start : start + 8] for start in range(0, 1600, 8)]
    cells = [" ".join(generator.choices(generator.choice(topics), k=9)) for _ in range(2000)]
    exact = TfidfVectorizer(min_df=2).fit_transform(cells).toarray()
    preparation = fitted(cells, "text")
    matrix = preparation.transform(pa.table({"x": cells}))
    assert matrix.shape[1] < exact.shape[1]
    assert matrix.std(axis=0).max() == pytest.approx(1, rel=1e-5)
    unscaled = matrix / preparation.columns[0].parameters["factor"]
    found, expected = (np.linalg.svd(each, compute_uv=False)[:50] for each in (unscaled, exact))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


CELLS = {
    "number": st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
    "category": st.one_of(st.none(), st.sampled_from(["a", "b", "c"]), st.text(max_size=3)),
    "text": st.one_of(st.none(), st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)),
    "date": st.one_of(
        st.none(), st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)).map(str)
    ),
    "boolean": st.one_of(st.none(), st.sampled_from(["yes", "no", "TRUE", "f"])),
}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_saved_and_shuffled_columns_give_the_same_bits(tmp_path_factory, data):
    rows = data.draw(st.integers(1, 12))
    kinds = {"number": pa.float64()}
    columns = {
        kind: pa.array(
            data.draw(st.lists(cells, min_size=rows, max_size=rows)), kinds.get(kind, pa.string())
        )
        for kind, cells in CELLS.items()
    }
    table = pa.table(columns)
    preparation = Preparation.fit(table)
    folder = tmp_path_factory.mktemp("run")
    preparation.save(folder)
    again = Preparation.load(folder)
    shuffled = table.select(data.draw(st.permutations(table.column_names)))
    matrix = preparation.transform(table)
    assert np.isfinite(matrix).all()
    assert matrix.shape == (rows, len(preparation.names))
    np.testing.assert_array_equal(again.transform(shuffled), matrix)
    assert (again.names, again.describe()) == (preparation.names, preparation.describe())


def test_all_columns_that_do_not_fit_are_named_at_once():
    table = pa.table({"a": ["1", "2"], "b": ["x", "x"], "c": ["2020-01-01", "2020-01-02"]})
    preparation = Preparation.fit(table, kinds={"b": "category"})
    other = pa.table({"c": [1.5, 2.5], "a": ["one", "two"], "more": [1, 2]})
    with pytest.raises(SourceError) as error:
        preparation.transform(other)
    assert "no column `b`" in error.value.message
    assert "`a` holds 2 cells such as 'one' in row 1" in error.value.message
    assert "`c` holds double; expected dates" in error.value.message
    assert preparation.unused(other) == ("more",)


def test_kinds_of_the_user_win_and_must_be_possible():
    assert fitted(list(range(100)), "number").names == ("x",)
    assert fitted(["1", "2"], "drop").describe() == ["x: left out, as asked"]
    with pytest.raises(SourceError, match="`x` was to be a date and holds 1 cells such as 'soon'"):
        fitted(["2020-01-01", "soon"], "date")
    with pytest.raises(ConfigError, match="expected one of number, category"):
        fitted(["1", "2"], "money")
    with pytest.raises(SourceError, match="no column `y`"):
        Preparation.fit(pa.table({"x": [1, 2]}), kinds={"y": "number"})


def test_only_some_rows_are_fitted_to():
    preparation = fitted([1.0, 2.0, 3.0, 100.0], train_rows=[0, 1, 2])
    assert preparation.columns[0].parameters["median"] == 2


def test_damaged_files_are_refused(tmp_path):
    with pytest.raises(StoreError, match="cannot be read"):
        Preparation.load(tmp_path)
    fitted(["1", "2"]).save(tmp_path)
    content = json.loads((tmp_path / "preparation.json").read_text())
    (tmp_path / "preparation.npz").write_bytes(b"PK")
    with pytest.raises(StoreError, match="damaged"):
        Preparation.load(tmp_path)
    (tmp_path / "preparation.json").write_text(json.dumps({**content, "version": 99}))
    with pytest.raises(StoreError, match="version 99"):
        Preparation.load(tmp_path)

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.report import reliability_curve
from scr.report.charts import bar, confusion_chart, heat, reliability_diagram, training_curves
from scr.report.charts._svg import Area, ticks


def texts(chart) -> str:
    """Of a drawing that is well-formed and has a name for screen readers."""
    drawing = ElementTree.fromstring(str(chart.svg))
    assert drawing.get("role") == "img"
    assert drawing.get("aria-label") == drawing.find("title").text
    return " ".join(drawing.itertext())


def points(chart) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in ElementTree.fromstring(str(chart.svg)).iter("polyline")
    ]


def test_curves_cover_what_the_history_holds(history):
    curves = training_curves({"scr": [history]}, best_epoch=8)
    assert list(curves) == ["accuracy", "loss", "confident_nodes", "confident_accuracy"]
    assert "kept: epoch 8" in texts(curves["accuracy"])
    assert "kept" not in texts(curves["loss"])
    assert curves["accuracy"].rows[0] == ("1", "40.0")
    assert curves["accuracy"].rows[-1] == ("10", "85.0")
    assert curves["loss"].headings == ("epoch", "supervised", "consistency")


def test_a_curve_is_drawn_to_scale():
    history = [{"epoch": epoch, "confident_nodes": 30 * epoch} for epoch in (1, 2, 3, 5)]
    (line,) = points(training_curves({"scr": [history]})["confident_nodes"])
    x, y = np.array(line).T
    np.testing.assert_allclose((x - x[0]) / (x[-1] - x[0]), [0, 0.25, 0.5, 1], atol=1e-3)
    np.testing.assert_allclose((y - y[0]) / (y[-1] - y[0]), [0, 0.25, 0.5, 1], atol=1e-3)
    assert y[0] > y[-1]  # more is higher


def test_curves_of_one_run_name_its_stages(history):
    staged = [{**record, "stage": 1 if record["epoch"] <= 6 else 2} for record in history]
    for chart in training_curves({"scr": [staged]}).values():
        assert "stage 1" in texts(chart)
        assert "stage 2" in texts(chart)
    assert "stage" not in texts(training_curves({"scr": [history]})["loss"])
    assert "stage" not in texts(training_curves({"scr": [staged, staged]})["loss"])


def test_curves_leave_out_what_was_not_recorded_and_single_epochs(history):
    without = [{**record, "supervised_loss": float("nan")} for record in history]
    loss = training_curves({"none": [without]})["loss"]
    assert loss.headings == ("epoch", "consistency")
    assert training_curves({"none": [history[:1]]}) == {}
    assert training_curves({"none": [[]]}) == {}


def test_charts_that_say_nothing_are_left_out(history):
    """All nodes are confident after a warm-up, with a threshold of 0."""
    idle = [
        {**record, "threshold": 0.0, "confident_nodes": 0 if record["epoch"] < 4 else 77,
         "confident_valid_accuracy": record["valid_accuracy"], "consistency_loss": 0.0}
        for record in history
    ]  # fmt: skip
    curves = training_curves({"scr": [idle]})
    assert list(curves) == ["accuracy", "loss"]
    assert curves["loss"].headings == ("epoch", "supervised")


def test_curves_of_several_models_name_them_and_average_seeds(history):
    lower = [{**each, "valid_accuracy": each["valid_accuracy"] - 0.1} for each in history]
    chart = training_curves({"none": [history, lower[:5]], "scr": [history]})["accuracy"]
    assert [key.name for key in chart.legend] == ["none", "scr"]
    assert chart.rows[0] == ("1", "35.0", "40.0")
    assert chart.rows[-1] == ("10", "–", "85.0")  # one seed of the first stopped
    assert len(points(chart)) == 2 + 1 + 1


def test_of_many_epochs_the_table_has_some_and_the_last():
    history = [{"epoch": epoch, "valid_accuracy": epoch / 1000} for epoch in range(1, 1000)]
    chart = training_curves({"none": [history]})["accuracy"]
    assert len(chart.rows) <= 61
    assert chart.rows[-1][0] == "999"
    assert chart.note == f"{len(chart.rows)} of 999 recorded epochs."


def test_names_of_models_are_text_in_drawings_and_tables(history):
    chart = training_curves({"<b>": [history], "scr": [history]})["loss"]
    assert chart.legend[0].name == "<b>, supervised"
    assert "<b>" not in str(chart.svg)


def test_reliability_diagram_states_the_calibration_error():
    # By hand: (|0.9 - 0.5| * 2 + |0.3 - 1| * 1) / 3 = 0.5.
    chart = reliability_diagram(reliability_curve([0.9, 0.9, 0.3], [True, False, True]))
    assert "the calibration error is 50.0 points" in texts(chart)
    assert chart.rows == [("27 to 33", "1", "30.0", "100.0"), ("87 to 93", "2", "90.0", "50.0")]


def test_a_single_dot_is_no_reliability_diagram():
    assert reliability_diagram(reliability_curve([0.9, 0.9], [True, False])) is None
    assert reliability_diagram(reliability_curve([], [])) is None


def test_a_confusion_of_many_classes_shows_the_most_frequent():
    confusion = np.random.default_rng(0).integers(0, 9, (70, 70))
    confusion[3] = 0
    confusion[10, 20] = 40
    names = [f"class {i} <odd> name" for i in range(70)]
    chart = confusion_chart(confusion, names)
    assert "50 most frequent classes" in chart.title
    assert "<odd>" in texts(chart)
    share = f"{4000 / confusion[10].sum():.1f}"
    assert chart.rows[0] == ("class 10 <odd> name", "class 20 <odd> name", "40", share)
    assert len(chart.rows) == 50
    assert "kinds of mistakes" in chart.note


def test_a_confusion_without_mistakes_has_an_empty_table():
    assert confusion_chart(np.eye(13, dtype=np.int64), [str(i) for i in range(13)]).rows == []


def test_bars_start_at_zero_and_end_at_the_value():
    def ends(svg):
        x, width = (float(re.search(rf'{name}="([\d.]+)"', svg)[1]) for name in ("x", "width"))
        return x, x + width

    assert ends(bar(0.25)) == (0, 25)
    assert ends(bar(-1, -1, 3)) == (0, 25)
    assert ends(bar(3, -1, 3)) == (25, 100)
    assert ends(bar(9, 0, 3)) == (0, 100)
    assert 'x1="10.0" x2="30.0"' in bar(0.2, between=(0.1, 0.3))
    assert bar(None) == bar(float("nan")) == bar("x") == ""


def test_shades_are_shares():
    assert "--share:0.25" in heat(0.25)
    assert "--share:1" in heat(2.0, "wrong")


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_even_and_inside(low, width):
    found = np.array(ticks(low, low + width))
    assert 1 <= len(found) <= 8
    assert (found >= low - 1e-6 * width).all()
    assert (found <= low + width + 1e-6 * width).all()
    steps = np.diff(found)
    np.testing.assert_allclose(steps, np.full_like(steps, steps[0] if len(steps) else 0), rtol=1e-3)


def test_a_logarithmic_height_is_one_of_powers():
    area = Area(0, 0, 10, 30, 0, 1, 0.001, 1.0, log=True)
    assert [area.y(value) for value in (0.001, 0.01, 0.1, 1.0)] == pytest.approx([30, 20, 10, 0])
    assert area.y(0.0) == pytest.approx(30)

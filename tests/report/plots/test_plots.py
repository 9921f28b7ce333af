import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest

from scr.report import compare_runs, per_class_table, reliability_curve
from scr.report.plots import (
    accuracy_dots,
    class_recalls,
    confusion_heatmap,
    difference_dots,
    image_tile,
    inline_svg,
    reliability_diagram,
    training_curves,
)


def texts(svg: bytes) -> str:
    return " ".join(ElementTree.fromstring(svg).itertext())


@pytest.fixture
def runs():
    return [
        {"encoder": encoder, "regularizer": regularizer, "seed": seed,
         "valid_accuracy": 0.8, "test_accuracy": 0.8 + seed / 100 + (regularizer == "scr") / 50}
        for encoder in ("ssgc", "sign")
        for regularizer in ("none", "scr")
        for seed in range(3)
    ]  # fmt: skip


def test_curves_cover_what_the_history_holds(history):
    curves = training_curves({"scr": [history]}, best_epoch=8)
    assert list(curves) == ["loss", "accuracy", "confident_nodes", "confident_accuracy"]
    assert "kept: epoch 8" in texts(curves["accuracy"])


def test_curves_of_one_run_name_its_stages(history):
    staged = [{**record, "stage": 1 if record["epoch"] <= 6 else 2} for record in history]
    for svg in training_curves({"scr": [staged]}).values():
        assert "stage 1" in texts(svg)
        assert "stage 2" in texts(svg)
    assert "stage" not in texts(training_curves({"scr": [history]})["loss"])
    assert "stage" not in texts(training_curves({"scr": [staged, staged]})["loss"])


def test_curves_leave_out_what_was_not_recorded():
    history = [{"epoch": 1, "valid_accuracy": 0.5, "supervised_loss": float("nan")}]
    assert list(training_curves({"none": [history]})) == ["accuracy"]
    assert training_curves({"none": [[]]}) == {}


def test_curves_of_several_models_name_them(history):
    svg = training_curves({"none": [history, history[:5]], "scr": [history]})["loss"]
    assert all(name in texts(svg) for name in ("none", "scr", "supervised", "consistency"))


def test_equal_input_gives_equal_bytes(runs):
    assert accuracy_dots(runs) == accuracy_dots(runs)


def test_the_users_matplotlib_settings_are_neither_used_nor_changed(runs):
    plain = accuracy_dots(runs)
    with matplotlib.rc_context({"font.size": 40}):
        assert accuracy_dots(runs) == plain
        assert matplotlib.rcParams["font.size"] == 40


def test_comparison_plots_show_encoders_and_differences(runs):
    assert "sign" in texts(accuracy_dots(runs))
    assert "+2.00 (+2.00 to +2.00)" in texts(difference_dots(compare_runs(runs)))


def test_quality_plots_survive_absent_and_many_classes():
    generator = np.random.default_rng(0)
    confusion = generator.integers(0, 9, (70, 70))
    confusion[3] = 0
    names = [f"class {i} $with$ <odd> name" for i in range(70)]
    assert "50 most frequent of 70 classes" in texts(confusion_heatmap(confusion, names))
    assert "15 hardest classes" in texts(class_recalls(per_class_table(confusion, names)))


def test_reliability_diagram_states_the_calibration_error():
    curve = reliability_curve([0.9, 0.9], [True, False])
    assert "calibration error 40.0%" in texts(reliability_diagram(curve))


def test_plots_come_as_png_too(runs):
    assert accuracy_dots(runs, file_format="png").startswith(b"\x89PNG")
    assert image_tile(np.eye(8)).startswith(b"\x89PNG")


def test_inline_plots_share_no_ids_and_follow_the_theme(runs):
    first = inline_svg(accuracy_dots(runs), name="a", description="dots")
    second = inline_svg(accuracy_dots(runs), name="b", description="dots")

    def ids(svg):
        return {node.get("id") for node in ElementTree.fromstring(svg).iter()} - {None}

    assert ids(first)
    assert not ids(first) & ids(second)
    assert "var(--ink)" in first
    assert "#1c2531" not in first

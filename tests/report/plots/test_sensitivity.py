import xml.etree.ElementTree as ElementTree

from scr.report import summarize, sweep_curves
from scr.report.plots import sensitivity_curves, sensitivity_overview

BASE = [{"seed": seed, "test_accuracy": 0.8, "valid_accuracy": 0.7} for seed in range(3)]


def texts(svg):
    return " ".join(ElementTree.fromstring(svg).itertext())


def drawn(effects, *, measured=("test_accuracy", "valid_accuracy")):
    runs = [
        {"setting": "consistency.weight", "regularizer": "scr", "value": value, "seed": seed}
        | dict.fromkeys(measured, 0.8 + effect + seed / 1000)
        for value, effect in effects.items()
        for seed in range(3)
    ]
    base = summarize({run["seed"]: run for run in BASE}, {}, 0.0)
    return sweep_curves(runs, BASE), base


def test_a_picture_names_setting_values_nodes_and_base():
    curves, base = drawn({0.03: 0.0, 1.0: 0.01})
    shown = texts(sensitivity_curves(curves, base)["consistency.weight"])
    for text in ("consistency weight λ", "0.03", "Test nodes (base 80.0%)",
                 "Validation nodes (base 70.0%)", "best on validation nodes"):  # fmt: skip
        assert text in shown
    assert "consistency weight λ" in texts(sensitivity_overview(curves, base))


def test_a_collapsed_run_is_named_instead_of_flattening_the_curve():
    curves, base = drawn({0.1: 0.0, 0.3: 0.01, 1.0: 0.01, 10.0: -0.7}, measured=["test_accuracy"])
    shown = texts(sensitivity_curves(curves, base)["consistency.weight"])
    assert "↓ −69.9" in shown
    assert "Validation nodes" not in shown

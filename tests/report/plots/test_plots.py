import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest

from scr.report import compare_runs
from scr.report.plots import accuracy_dots, difference_dots, image_tile, inline_svg


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

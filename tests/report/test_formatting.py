import pytest

from scr.report import plain, points
from scr.report._formatting import interval, mean_and_spread, memory, percent, seconds


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (percent(0.8537), "85.4"),
        (percent(None), "–"),
        (percent(float("nan")), "–"),
        (mean_and_spread(0.8537, 0.0051), "85.4 ± 0.5"),
        (mean_and_spread(0.8537, None), "85.4"),
        (points(-0.0123), "−1.23"),
        (points(-0.00001), "+0.00"),
        (interval(0.005, 0.02), "+0.50 to +2.00"),
        (interval(None, None), ""),
        (seconds(0.0314), "31 ms"),
        (seconds(12.34), "12.3 s"),
        (seconds(600), "10 min"),
        (seconds(9000), "2.5 h"),
        (memory(512), "512 B"),
        (memory(3 * 2**30), "3.0 GiB"),
        (plain(True), "yes"),
        (plain(1234567), "1,234,567"),
        (plain(0.0005), "0.0005"),
        (plain([1, "a"]), "1, a"),
        (plain({"a": 1}), "a = 1"),
    ],
)
def test_numbers_are_written_for_people(shown, expected):
    assert shown == expected

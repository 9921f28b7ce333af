"""Filling sections from plain values, and saying at once everything that is wrong."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.config import (
    Chance,
    Count,
    Range,
    Settings,
    build,
    check,
    check_value,
    parse_assignment,
    parse_bytes,
    read_toml,
)
from scr.errors import ConfigError, SourceError


@dataclass(frozen=True)
class Section:
    count: int = 1
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    end: float | None = None
    size: int | Literal["auto"] = "auto"
    on: bool = False
    parts: tuple[int, ...] = ()

    def __post_init__(self):
        check(self.count > 0, "section.count", self.count, "a whole number above 0")


def test_plain_values_become_a_section():
    made = build(Section, {"count": 3, "rate": 1, "end": "none", "size": 7}, section="section")
    assert made == Section(count=3, rate=1.0, end=None, size=7)
    assert isinstance(made.rate, float)
    assert build(Section, {"parts": [1, 2]}, section="section").parts == (1, 2)


def test_every_mistake_is_named_at_once():
    with pytest.raises(ConfigError) as caught:
        build(Section, {"cuont": 3, "rate": "fast", "kind": "c", "on": 1}, section="section")
    message = str(caught.value)
    assert "section.cuont" in message
    assert "did you mean `count`?" in message
    assert "`section.rate` is 'fast'; expected a number" in message
    assert "`section.kind` is 'c'; expected one of `a`, `b`" in message
    assert "`section.on` is 1; expected true or false" in message


def test_a_section_checks_itself():
    with pytest.raises(ConfigError, match=r"`section.count` is 0; expected a whole number above 0"):
        build(Section, {"count": 0}, section="section")


@dataclass(frozen=True, kw_only=True)
class Bounded(Settings):
    section: ClassVar[str] = "bounded"
    count: Count | Literal["auto"] = "auto"
    chance: Chance | None = None
    chances: tuple[Chance, ...] = ()


def test_bounds_in_types_are_checked_when_a_section_is_made():
    made = Bounded(count=3, chance=0, chances=[0, 0.5])
    assert made == Bounded(count=3, chance=0.0, chances=(0.0, 0.5))
    with pytest.raises(ConfigError) as caught:
        Bounded(count=0, chance=1.0, chances=(2,))
    assert str(caught.value).splitlines() == [
        "`bounded.count` is 0; expected a whole number of at least 1 or `auto`",
        "`bounded.chance` is 1.0; expected a number in [0, 1) or `none`",
        "`bounded.chances` is 2; expected a number in [0, 1)",
    ]


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        (Range(0, 1), (0, 1), (-0.1, 1.1), "in [0, 1]"),
        (Range(0, 1, "[)"), (0, 0.9), (1,), "in [0, 1)"),
        (Range(0, 1, "(]"), (0.1, 1), (0,), "in (0, 1]"),
        (Range(2), (2, 3), (1,), "of at least 2"),
        (Range(0, ends="(]"), (0.1,), (0, float("inf"), float("nan")), "above 0"),
    ],
)
def test_a_range_holds_finite_numbers_between_its_bounds(bounds, inside, outside, words):
    for value in inside:
        assert check_value("rate", value, Annotated[float, bounds]) == value
    for value in outside:
        with pytest.raises(ConfigError) as caught:
            check_value("rate", value, Annotated[float, bounds])
        assert str(caught.value).endswith(f"expected a number {words}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1", ("a", "b", 1)),
        ("a.b=1.5", ("a", "b", 1.5)),
        ("a.b=true", ("a", "b", True)),
        ('a.b="x y"', ("a", "b", "x y")),
        ("a.b=row", ("a", "b", "row")),
        ("a.b=[1, 2]", ("a", "b", [1, 2])),
        ("a.b=x=y", ("a", "b", "x=y")),
    ],
)
def test_assignments_are_read_as_toml_or_as_text(text, expected):
    assert parse_assignment(text) == expected


@pytest.mark.parametrize("text", ["a=1", "a.b", ".b=1", "a.=1", ""])
def test_other_assignments_are_refused(text):
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        parse_assignment(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4GiB", 4 * 2**30),
        ("512MB", 512 * 10**6),
        ("1.5k", 1500),
        ("7", 7),
        (9, 9),
        ("2 tib", 2**41),
    ],
)
def test_sizes(text, expected):
    assert parse_bytes(text) == expected


@given(st.text(alphabet="xyz!?-", min_size=1))
def test_other_sizes_are_refused(text):
    with pytest.raises(ConfigError, match="a size such as"):
        parse_bytes(text)


def test_broken_toml_is_named(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text("[training\n")
    with pytest.raises(SourceError, match=r"recipe\.toml` is not valid TOML"):
        read_toml(file)
    with pytest.raises(SourceError, match="does not exist"):
        read_toml(tmp_path / "other.toml")

"""The version of the code changes with what the code does, and not with its words."""

import itertools

import pytest

CODE = '''"""A module."""

from dataclasses import dataclass


@dataclass
class Config:
    """Settings."""

    hops: int = 2
    """How many."""


def scaled(x):
    """Twice x."""
    # As the paper has it.
    return {"a": 2 * x}
'''


@pytest.fixture
def version(benchmark_module, tmp_path, monkeypatch):
    module = benchmark_module("code_version")
    monkeypatch.setitem(module.PACKAGES, "some", ("graph", "config.py"))
    numbers = itertools.count()

    def of(code=CODE, *, preset="hops = 2\n", name="scale.py", other="x = 1\n", kind="some"):
        source = tmp_path / str(next(numbers))
        files = {
            f"graph/{name}": code, "graph/presets/few.toml": preset, "config.py": "",
            "report/page.py": other,
        }  # fmt: skip
        for path, text in files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(text)
        return module.code_version(kind, source)

    return of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# As the paper has it.", "# Twice, as in section 3."),
        ("    # As the paper has it.\n", ""),
        ('"""Twice x."""', '"""Two times x,\n\n    as in section 3."""'),
        ('    """Twice x."""\n', ""),
        ('"""How many."""', '"""Steps along edges."""'),
        ('"""A module."""\n', ""),
        ('{"a": 2 * x}', "{\n        'a': (2 * x),\n    }"),
    ],
)
def test_words_and_layout_do_not_count(version, before, after):
    assert before in CODE
    assert version(CODE.replace(before, after)) == version()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hops: int = 2", "hops: int = 3"),
        ("hops: int = 2", "hops: int = 2.0"),
        ("2 * x", "x * 2"),
        ("2 * x", "2 + x"),
        ('{"a"', '{"b"'),
        ("@dataclass\n", ""),
        ("return {", "return None or {"),
    ],
)
def test_every_change_of_code_counts(version, before, after):
    assert before in CODE
    assert version(CODE.replace(before, after)) != version()


def test_presets_count_by_their_values(version):
    assert version(preset="# two\nhops=2\n") == version()
    assert version(preset="hops = 3\n") != version()


def test_names_of_files_count(version):
    assert version(name="scaling.py") != version()


def test_only_the_packages_of_a_kind_count(version):
    assert version(other="x = 2\n") == version()
    assert version(other="x = 2\n", kind="unheard of") != version(kind="unheard of")


def test_all_kinds_name_code_that_is_there(benchmark_module):
    module = benchmark_module("code_version")
    assert all(len(module.code_version(kind)) == 12 for kind in module.PACKAGES)


def test_a_package_that_is_gone_is_named(benchmark_module, tmp_path):
    module = benchmark_module("code_version")
    with pytest.raises(SystemExit, match="names compute, which is not in"):
        module.code_version("accuracy", tmp_path)


def test_the_version_of_peers_is_that_of_their_scripts_alone(benchmark_module, tmp_path):
    module = benchmark_module("code_version")
    source = tmp_path / "src" / "scr"
    (tmp_path / "benchmarks").mkdir()
    source.mkdir(parents=True)
    versions = []
    for script, package in (("x = 1", "y = 1"), ("x = 1", "y = 2"), ("x = 2", "y = 2")):
        (tmp_path / "benchmarks" / "stranger_peers.py").write_text(script)
        (tmp_path / "benchmarks" / "stranger_grand.py").write_text("")
        (source / "config.py").write_text(package)
        module.code_version.cache_clear()
        module._meaning.cache_clear()
        versions.append(module.code_version("stranger_peers", source))
    assert versions[0] == versions[1] != versions[2]

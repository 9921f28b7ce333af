"""The Dockerfile copies what is there and installs as the Makefile does; no image is built here."""

import re
import shlex
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
TEXT = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
LINES = [
    line
    for line in re.sub(r"\\\n\s*", "", TEXT).splitlines()
    if line.strip() and not line.startswith("#")
]
STEPS = [tuple(line.split(maxsplit=1)) for line in LINES]
KNOWN = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"}


def steps(instruction):
    return [text for name, text in STEPS if name == instruction]


def test_every_line_is_an_instruction():
    assert {name for name, _ in STEPS} == KNOWN
    assert STEPS[0][0] == "FROM"


def test_everything_that_is_copied_exists_and_is_not_ignored():
    ignored = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sources = [source for text in steps("COPY") for source in text.split()[:-1]]
    assert sources
    for source in sources:
        assert (REPOSITORY / source).exists(), source
        assert f"!{source}" in ignored


def test_what_the_build_of_the_package_reads_is_copied():
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    copied = {source for text in steps("COPY") for source in text.split()[:-1]}
    assert re.search(r'^readme = "(.*)"', project, re.M)[1] in copied
    assert re.search(r'^license-files = \["(.*)"\]', project, re.M)[1] in copied
    assert re.search(r'packages = \["(\w+)/', project)[1] in copied


def test_it_installs_by_the_command_of_the_makefile_with_what_serving_needs():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    command = re.search(r"^PIP_INSTALL := \$\(BIN\)/(.*)$", makefile, re.M)[1]
    assert f"{command} '.[serve]'" in steps("RUN")
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^serve = \["fastapi', project, re.M)


def test_it_runs_scr_and_not_as_root():
    assert steps("USER") == ["scr"]
    assert any("useradd" in shlex.split(text) for text in steps("RUN"))
    assert steps("ENTRYPOINT") == ['["scr"]']
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^scr = "scr.cli:main"$', project, re.M)


def test_the_version_of_python_is_one_that_the_package_takes():
    (image,) = steps("FROM")
    major, minor = map(int, re.fullmatch(r"python:(\d+)\.(\d+)-slim", image).groups())
    assert (major, minor) >= (3, 11)

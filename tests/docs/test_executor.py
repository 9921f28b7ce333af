"""What runs the pages fails where a page is wrong, and skips nothing that is not marked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import shell
from tests.docs.blocks import UnreadablePage, read_blocks
from tests.docs.session import PageError


def fenced(language: str, *lines: str, before: str = "") -> str:
    return "\n".join(["Text.", "", before, f"```{language}", *lines, "```", ""])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (fenced("python", "unknown + 1"), "page.md:4: NameError: name 'unknown'"),
        (fenced("python", "1 +"), "page.md:4: SyntaxError"),
        (fenced("python", "1 +", before="<!-- not run: slow -->"), "page.md:4: SyntaxError"),
        (fenced("python", "graph", before="<!-- given: grpah -->"), "page.md:4: KeyError: 'grpah'"),
        (fenced("sh", "scr train NOTHING --out run"), "exit code 2:\nerror: .*NOTHING"),
        (fenced("sh", "scr trian GRAPH --out run"), "no command of scr `trian`"),
        (fenced("sh", "scr train GRAPH --uot run"), "no option of .*train.* `--uot`"),
        (
            fenced("sh", "scr train GRAPH \\", "  --uot run", before="<!-- not run: slow -->"),
            "no option of .*train.* `--uot`",
        ),
        (
            fenced("sh", "scr reproduce zhang-1921-scr", before="<!-- not run: slow -->"),
            "no recipe `zhang-1921-scr`",
        ),
        (fenced("sh", "make cofee"), "no target `cofee`"),
        (fenced("sh", "python benchmarks/papers.py all --fracton 1"), "no option .*--fracton"),
        (fenced("sh", "python benchmarks/nothing.py"), "no script `benchmarks/nothing.py`"),
        (fenced("sh", "pip install '.[evrything]'"), "no extra `evrything`"),
        (fenced("sh", "docker build ."), "mark the block as not run"),
        (fenced("sh", "wget https://example.org"), "`wget` is none of"),
        (fenced("toml", "[training]", "epoks = 3"), "page.md:4: ConfigError: .*epoks"),
    ],
)
def test_a_wrong_block_is_named_with_its_line(text, message, open_page):
    with pytest.raises(PageError, match=message):
        open_page("page.md", text).run_all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (fenced("ruby", "puts 1"), "page.md:4: no one knows how to run `ruby`"),
        (fenced("", "anything"), "page.md:4: no one knows how to run ``"),
        ("```python\nx = 1\n", "page.md:1: the block has no end"),
        ("<!-- not run: slow -->\n\n```python\n```\n", "page.md:1: no block follows"),
        ("<!-- given: graph -->\n", "page.md:1: no block follows"),
    ],
)
def test_a_page_that_would_be_skipped_in_part_is_refused(text, message):
    with pytest.raises(UnreadablePage, match=message):
        read_blocks(text, "page.md")


def test_blocks_share_names_and_files_and_run_in_order(open_page):
    session = open_page(
        "page.md",
        fenced("python", "x = graph.num_nodes", before="<!-- given: graph -->")
        + fenced('text title="folder/note.txt"', "hello")
        + fenced("python", "import pathlib; x += len(pathlib.Path('folder/note.txt').read_text())")
        + fenced("sh", "scr recipes zhang-2021-scr-sign-products > mine.toml  # a copy")
        + fenced("python", "raise ValueError", before="<!-- not run: it would fail -->"),
    )
    session.run_all()
    assert session.names["x"] == 240 + len("hello\n")
    assert 'name = "sign"' in Path("mine.toml").read_text(encoding="utf-8")


def test_a_block_in_a_tab_is_read_without_its_indent():
    (block,) = read_blocks(
        '=== "Tab"\n\n    ```python\n    if True:\n        x = 1\n    ```\n', "p"
    )
    assert block.text == "if True:\n    x = 1\n"


def test_large_numbers_are_cut_and_small_ones_stay():
    words = shell._shortened(
        ["synth", "s", "--nodes", "20000000", "--edges", "10", "--label-fraction", "0.01"]
    )
    assert words == ["synth", "s", "--nodes", "1500", "--edges", "10", "--label-fraction", "0.2"]

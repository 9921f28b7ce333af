"""What the guide to tables shows can be run and prints what it says."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "your-own-tables.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


def test_what_the_guide_shows_of_columns_can_be_run(tmp_path, monkeypatch, capsys):
    text = GUIDE.read_text(encoding="utf-8")
    section = text.partition("## What becomes of each column")[2].partition("\n## ")[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "catalog").mkdir()
    blocks = BLOCK.findall(section)
    for _, file, content in blocks:
        if file:
            (tmp_path / file).write_text(content, encoding="utf-8")
    names: dict = {}
    for language, _, content in blocks:
        if language == "python":
            exec(compile(content, "guide", "exec"), names)
    (printed,) = [content for language, file, content in blocks if language == "text" and not file]
    assert capsys.readouterr().out == printed
    new, graph = names["new"], names["graph"]
    assert graph.ids.tolist() == ["007", "A-2", "A-3", "A-4"]
    assert new.edges.tolist() == [[4], [2]]
    assert new.features.shape[1] == graph.num_features
    assert any("ignored: `maker`" in note for note in new.notes)

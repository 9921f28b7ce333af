"""Names of others in pages, pictures and reprs: what a browser parses does not depend on them."""

import html.parser
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scr
from scr.report import sweep_curves
from scr.report.page import comparison_page, learning_curve_page, run_page, sweep_page
from scr.tables import TableOptions, read_table_graph

pytest.importorskip("campaigns", reason="a package without its campaigns")
from campaigns.damage_requests import HOSTILE_TEXTS

PLAIN = "harmless"
NAMES = [
    *[name for name in HOSTILE_TEXTS if name.strip() and name != "\ud800"],
    "'onload='alert(1)", "--><svg onload=alert(1)>", "<!--", "&lt;b&gt;", "&#60;b>", "`x`",
    "javascript:alert(1)", "$\\frac{1$", "$x^2$", "\\", "\x1b[2J", "\u2028", "id=\"a\"", "#0072b2",
    "</script><script>alert(1)</script>", "</svg>", "</style>", "<plaintext>", "%7B", "\x85",
]  # fmt: skip

MARKUP = [name for name in NAMES if set(name) & set("<>&\"'$\\\x00\u2028") or len(name) > 99]
"""Those that could matter to a picture as well: drawing takes long."""


class Skeleton(html.parser.HTMLParser):
    """Tags and names of attributes, in order; texts apart."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.texts = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, *sorted(name for name, _ in attributes if name != "class")))
        self.texts += [value for _, value in attributes if value]

    def handle_endtag(self, tag):
        self.tags.append(tag)

    def handle_comment(self, data):
        self.tags.append("comment")

    def handle_decl(self, decl):
        self.tags.append(decl)

    def unknown_decl(self, data):
        self.tags.append("unknown")

    def handle_pi(self, data):
        self.tags.append("pi")

    def handle_data(self, data):
        self.texts.append(data)


def renamed(value, name):
    """The same record with another name in the place of the harmless one."""
    if isinstance(value, str):
        return value.replace(PLAIN, name)
    if isinstance(value, list):
        return [renamed(each, name) for each in value]
    if isinstance(value, dict):
        return {renamed(key, name): renamed(each, name) for key, each in value.items()}
    return value


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two tables with all that a page may show."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 60)
    labels = np.array([f"{PLAIN} {kind}" for kind in kinds], dtype=object)
    labels[45:] = None
    nodes = pd.DataFrame({
        "id": [f"{PLAIN} {number}" for number in range(60)],
        f"{PLAIN} price": kinds + rng.random(60),
        "color": [f"{PLAIN} {kind}" for kind in kinds], "label": labels,
    })  # fmt: skip
    edges = pd.DataFrame(nodes["id"].to_numpy()[rng.integers(0, 60, (150, 2))])
    edges.columns = ["source", "target"]
    read = read_table_graph(nodes, edges, TableOptions())
    graph = read.graph.with_split(np.arange(20), np.arange(20, 45))
    classifier = scr.NodeClassifier("sgc", "none", preset="none", epochs=2).fit(graph)
    classifier.save(folder / PLAIN, source=str(graph.save(folder / "store")))
    record = json.loads((folder / PLAIN / "run.json").read_text())
    record["graph"]["name"] = PLAIN
    record["notes"] = [f"about {PLAIN}"]
    record["command"] = f"scr fit {PLAIN}.csv"
    (folder / PLAIN / "run.json").write_text(json.dumps(record))
    drops = [{"what": "hop", "name": f"{PLAIN} 1", "mean": 0.1, "spread": 0.01}]
    relations = [f"{PLAIN}:a", f"b:{PLAIN}"]
    explanation = {
        "encoder": PLAIN, "nodes": 12, "split": "valid", "hops": [f"{PLAIN} 0", f"{PLAIN} 1"],
        "attention": {"kind": "attention", "mean": [0.2, 0.8], "spread": [0.1, 0.1],
                      "classes": [f"{PLAIN} 0", PLAIN], "class_nodes": [3, 4],
                      "by_class": [[0.1, 0.9], [0.4, 0.6]]},
        "mixing": {"subsets": [relations, relations[:1]], "by_hop": [[0.3, 0.7]],
                   "relations": relations, "relation_by_hop": [[0.1, 0.9]],
                   "relation": [0.1, 0.9]},
        "accuracy": 0.8, "drops": drops,
    }  # fmt: skip
    (folder / PLAIN / "explanation.json").write_text(json.dumps(explanation))
    return folder / PLAIN


def with_names(run, folder, name):
    """The files of a run that its page reads, with another name in all of them."""
    for file in [*run.glob("*.json"), *run.glob("*/*.json")]:
        target = folder / file.relative_to(run)
        target.parent.mkdir(exist_ok=True, parents=True)
        target.write_text(json.dumps(renamed(json.loads(file.read_text()), name)))
    (folder / "history.jsonl").write_bytes((run / "history.jsonl").read_bytes())
    table = pq.read_table(run / "predictions.parquet")
    columns = {
        renamed(column, name): pa.array(renamed(table[column].to_pylist(), name))
        for column in table.column_names
    }
    pq.write_table(pa.table(columns), folder / "predictions.parquet")
    return folder


@pytest.fixture(scope="module")
def plain_page(run):
    return Skeleton(run_page(run))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_run_has_the_same_tags_whatever_its_names(run, plain_page, name, tmp_path):
    page = Skeleton(run_page(with_names(run, tmp_path / "run", name)))
    assert page.tags == plain_page.tags
    if "\n" not in name and "\r" not in name:
        assert sum(text.count(name) for text in page.texts) > 50


def compare():
    runs = [
        {"encoder": PLAIN, "regularizer": regularizer, "seed": seed, "valid_accuracy": 0.8,
         "test_accuracy": 0.8 + seed / 100, "train_seconds": 2.0, "balanced_accuracy": 0.7}
        for regularizer in ("none", f"{PLAIN} term") for seed in range(3)
    ]  # fmt: skip
    return {
        "graph": {"name": PLAIN, "nodes": 3}, "runs": runs, "notes": [PLAIN],
        "command": f"scr compare {PLAIN}",
    }  # fmt: skip


def sweep():
    def rows(regularizer, values):
        return [
            {"setting": PLAIN, "regularizer": regularizer, "value": value, "seed": seed,
             "test_accuracy": 0.8 + seed / 100, "valid_accuracy": 0.7}
            for value in values for seed in range(3)
        ]  # fmt: skip

    base = rows("none", [0.0])
    curves = sweep_curves(rows(PLAIN, [0.1, 1.0]), base)
    record = {
        "encoder": PLAIN,
        "graph": {"name": PLAIN},
        "headline": PLAIN,
        "cautions": [PLAIN],
        "curves": curves,
        "command": PLAIN,
        "notes": [PLAIN],
        "base": dict.fromkeys(("valid_mean", "valid_std", "test_mean", "test_std"), 0.5),
    }
    return json.loads(json.dumps(record))


def learning_curve():
    side = {"n": 3, "test_mean": 0.8, "test_std": 0.1}
    gap = {"mean": 0.1, "low": 0.0, "high": 0.2, "verdict": "better"}
    points = [
        {"labels_per_class": size, "train_labels": size, "base": side, "regularized": side,
         "difference": gap} for size in (5, 10)
    ]  # fmt: skip
    return {
        "encoder": PLAIN, "graph": {"name": PLAIN}, "regularizer": PLAIN, "curve": points,
        "sentences": [PLAIN], "measured_on": PLAIN, "measured_nodes": 12, "command": PLAIN,
    }  # fmt: skip


PAGES = {
    "comparison": (comparison_page, compare),
    "sweep": (sweep_page, sweep),
    "learning curve": (learning_curve_page, learning_curve),
}


@pytest.mark.parametrize("kind", PAGES)
def test_pages_of_experiments_have_the_same_tags_whatever_their_names(kind):
    draw, record = PAGES[kind]

    # Labels of plots wrap and are cut by their width: their tags count, not their shapes.
    def outside(page):
        tags, inside = [], 0
        for tag in Skeleton(page).tags:
            inside += (tag[0] == "svg" and not isinstance(tag, str)) - (tag == "svg")
            if not inside:
                tags.append(tag)
        return tags

    expected = outside(draw(record()))
    drawn = {tag[0] for tag in Skeleton(draw(record())).tags if not isinstance(tag, str)}
    for name in MARKUP[2::3]:
        page = draw(renamed(record(), name))
        assert outside(page) == expected, name
        found = {tag[0] for tag in Skeleton(page).tags if not isinstance(tag, str)}
        assert found <= drawn | {"path", "use", "g", "defs"}, name


def test_reprs_of_notebooks_have_the_same_tags_whatever_their_names():
    def tags(name):
        settings = {"name": "sign", "activation": name}
        return Skeleton(scr.NodeClassifier(settings, "none", preset=name)._repr_html_()).tags

    for name in NAMES:
        assert tags(name) == tags(PLAIN), name


def test_text_that_a_template_is_given_is_never_a_template():
    page = learning_curve_page(renamed(learning_curve(), "{{7*7}}{% raw %}"))
    assert "Learning curve of {{7*7}}{% raw %} on {{7*7}}{% raw %}" in page

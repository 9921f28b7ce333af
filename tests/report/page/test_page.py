import html
import html.parser
import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import sklearn.metrics

import scr.report
from scr.errors import RunError, StoreError
from scr.report import choose_examples
from scr.report.page import comparison_page, run_page, write_page

HOSTILE = "<script>alert('x')</script> & \"co\""
VOID = {"meta", "link", "img", "br", "hr", "input"}
SCRIPT = (Path(scr.report.__file__).parent / "templates" / "page.js").read_text().rstrip()


class Reader(html.parser.HTMLParser):
    """Checks that tags are balanced and gathers what the page would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.ids, self.loads, self.text = [], [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href"):
                self.loads.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(re.sub(r"\s+", " ", data))  # as a browser shows it


def check_self_contained(page: str) -> Reader:
    reader = Reader(page)
    assert reader.tags.count("script") == page.count("<script") <= 1
    assert page.count("<script>\n" + SCRIPT + "\n</script>") == reader.tags.count("script")
    assert all(value.startswith(("data:", "#")) for value in reader.loads)
    assert len(reader.ids) == len(set(reader.ids))
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    return reader


def compare():
    runs = [
        {"encoder": HOSTILE, "regularizer": name, "seed": seed, "valid_accuracy": 0.8,
         "test_accuracy": 0.8 + gain + seed / 1000, "train_seconds": 2.0,
         "balanced_accuracy": 0.7 + gain}
        for name, gain in (("none", 0.0), ("scr", 0.05))
        for seed in range(3)
    ]  # fmt: skip
    return {"graph": "digits", "runs": runs, "command": HOSTILE}


def test_run_page_is_self_contained_and_says_what_happened(run_dir):
    text = "".join(check_self_contained(run_page(run_dir)).text)
    for expected in ("79.9", "81.2", "77.8", "few-labels", "10 labels for 3 classes", "seed 4",
                     "Most confident mistakes", "1.0 GiB", "node <"):  # fmt: skip
        assert expected in text


def test_run_page_says_how_many_stages_of_how_many_epochs(run_dir, history):
    staged = [{**record, "stage": 1 if record["epoch"] <= 6 else 2} for record in history]
    (run_dir / "history.jsonl").write_text("\n".join(json.dumps(record) for record in staged))
    run = json.loads((run_dir / "run.json").read_text())
    run["recipe"]["stages"] = {"method": "rlu", "count": 2}
    (run_dir / "run.json").write_text(json.dumps(run))
    text = "".join(check_self_contained(run_page(run_dir)).text)
    assert "10 epochs in 2 stages" in text
    assert "2 stages of reliable label utilization (RLU), with 6 and 4 epochs" in text


def test_run_page_shows_accuracies_before_and_after_smoothing(run_dir):
    assert "smoothed" not in run_page(run_dir)
    record = {
        "settings": {"labels": "train"},
        "chosen": {"steps": "smooth", "smooth_alpha": 0.8},
        "valid": {"nodes": 500, "before": 0.8321, "after": 0.8361},
        "test": {"before": 0.837, "after": 0.8428},
        "trials": [{}, {}],
    }
    (run_dir / "smooth").mkdir()
    (run_dir / "smooth" / "smooth.json").write_text(json.dumps(record))
    text = "".join(check_self_contained(run_page(run_dir)).text)
    for expected in ("500 validation nodes", "83.21", "83.61", "+0.40", "83.70", "84.28", "+0.58",
                     "smooth alpha"):  # fmt: skip
        assert expected in text
    (run_dir / "smooth" / "smooth.json").write_text('{"valid": 3, "chosen": [], "test": {}}')
    assert "smoothed" not in run_page(run_dir)


def test_run_page_says_what_the_regularizer_did(run_dir):
    file = run_dir / "metrics.json"
    metrics = json.loads(file.read_text())
    term = {
        "acted": True, "acting_epochs": 7, "epochs": 8, "confident_share": 0.251,
        "confident_share_last": 0.5, "teacher_valid_accuracy": 0.81, "student_valid_accuracy": 0.8,
    }  # fmt: skip
    file.write_text(json.dumps(metrics | {"consistency": term}))
    text = "".join(Reader(run_page(run_dir)).text)
    assert "acted in 7 of 8 epochs after the warm-up, with 25.1% of the unlabeled" in text
    assert "the teacher is right on 81.0% of the validation nodes, the student on 80.0%" in text
    file.write_text(json.dumps(metrics | {"consistency": term | {"acted": False}}))
    assert "had no part in this result" in "".join(Reader(run_page(run_dir)).text)


def test_run_page_shows_user_text_as_text(run_dir):
    page = run_page(run_dir)
    assert page.count("<script") == 1  # our own
    assert "lambda turned down because of " + HOSTILE in "".join(Reader(page).text)


def test_run_page_needs_only_run_json(run_dir):
    for name in ("metrics.json", "history.jsonl", "predictions.parquet"):
        (run_dir / name).unlink()
    text = "".join(check_self_contained(run_page(run_dir)).text)
    assert "not finished" in text


def test_run_page_survives_fields_of_another_version(run_dir):
    (run_dir / "run.json").write_text('{"graph": null, "recipe": [], "notes": null, "preset": "x"}')
    (run_dir / "metrics.json").write_text('{"test": 3, "test_accuracy": "high", "epochs": null}')
    (run_dir / "history.jsonl").write_text('{"epoch": 1}\n[]\n')
    check_self_contained(run_page(run_dir))


def test_a_folder_that_is_no_run_is_a_clear_error(tmp_path):
    with pytest.raises(RunError, match=r"run\.json"):
        run_page(tmp_path)


def test_a_damaged_run_json_is_a_clear_error(tmp_path):
    (tmp_path / "run.json").write_text('{"graph": ')
    with pytest.raises(StoreError, match=r"run.json` cannot be read as JSON"):
        run_page(tmp_path)


def test_comparison_page_is_self_contained_and_draws_a_conclusion(history):
    page = comparison_page(
        compare(),
        title="Digits " + HOSTILE,
        graph_facts={"nodes": 1797, "note": HOSTILE},
        histories={"none": [history], "scr": [history, history]},
    )
    text = "".join(check_self_contained(page).text)
    assert "scr helped with" in text
    assert "+5.00" in text
    assert "1,797" in text
    assert "<script" not in page


def test_comparison_page_with_one_seed_says_that_it_shows_little():
    content = compare()
    content["runs"] = [run for run in content["runs"] if run["seed"] == 0]
    text = "".join(Reader(comparison_page(content, title="t", graph_facts={})).text)
    assert "use more seeds" in text
    assert "no interval" in text


def test_pages_explain_the_regularizers_that_they_show(run_dir):
    runs = [{**run, "regularizer": "softmatch" if run["regularizer"] == "scr" else "none"}
            for run in compare()["runs"]]  # fmt: skip
    page = comparison_page({"runs": runs}, title="t", graph_facts={})
    assert "softmatch: FixMatch with weights" in page
    assert "scr-m:" not in page
    run = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps({**run, "regularizer": "r-drop"}))
    assert "Regularizer r-drop: noisy views" in run_page(run_dir)


def test_comparison_page_without_runs_is_still_a_page():
    check_self_contained(comparison_page({"runs": []}, title="t", graph_facts={}))


def test_example_nodes_show_image_truth_and_every_answer():
    labels = np.array([0, 1, 1, -1])
    base, better = np.full((4, 2), 0.3), np.full((4, 2), 0.3)
    base[:, 0] = better[[0, 3], 0] = better[[1, 2], 1] = 0.7
    groups = choose_examples(
        labels, {"none": base, "scr": better}, images=np.zeros((4, 64)),
        ids=["a", "b", HOSTILE, "d"], class_names=["zero", "one"],
    )  # fmt: skip
    assert [(group.title, len(group.examples)) for group in groups] == [
        ("Put right by scr", 2),
        ("A random sample", 3),
    ]
    page = comparison_page(compare(), title="t", graph_facts={}, examples=groups)
    reader = check_self_contained(page)
    text = "".join(reader.text)
    assert reader.tags.count("img") == 5
    assert "zero ✗" in text
    assert "one ✓" in text
    assert "2 of 2 nodes that none got wrong and scr right" in text


def test_a_page_is_written_whole_and_replaces_the_old_one(tmp_path):
    target = tmp_path / "new" / "report.html"
    write_page(target, "first")
    assert write_page(target, "second ✓").read_text(encoding="utf-8") == "second ✓"
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_page(tmp_path / "file" / "report.html", "page")


def test_run_page_shows_class_shares_and_says_whether_a_correction_would_help(run_dir):
    assert "How common each class is" not in run_page(run_dir)
    file = run_dir / "metrics.json"
    metrics = json.loads(file.read_text())
    gain = {"accuracy": 0.0211, "error": 0.0104, "balanced_accuracy": -0.005, "verdict": "helps"}
    shares = {
        "nodes": 30, "training": [0.5, 0.25, 0.25], "predicted": [0.6, 0.2, 0.2],
        "em": [0.712, 0.188, 0.1], "bbse": None,
        "gains": {"em": gain, "bbse": gain | {"accuracy": -0.02, "verdict": "harms"}},
    }  # fmt: skip
    file.write_text(json.dumps(metrics | {"class_shares": shares}))
    text = " ".join("".join(check_self_contained(run_page(run_dir)).text).split())
    assert "71.2" in text
    assert "of EM would help (`scr predict RUN --class-shares em`): +2.11 ± 1.04 points" in text
    assert "−0.50 of balanced accuracy" in text
    assert "of BBSE would not help: −2.00 ± 1.04 points" in text
    # Half a record, or one of another version.
    for half in ({}, {"training": 3}, {"training": [0.5], "gains": {"em": 1}}, []):
        file.write_text(json.dumps(metrics | {"class_shares": half}))
        check_self_contained(run_page(run_dir))


def tables(page):
    """Tables of a page by their captions, as lists of rows of texts."""
    found = {}
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        rows = re.findall(r"<tr[ >].*?</tr>", table, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        texts = [
            [html.unescape(re.sub(r"<.*?>", "", cell)).strip() for cell in row] for row in cells
        ]
        caption = re.search(r"<caption>(.*?)</caption>", table, re.DOTALL)[1]
        found[html.unescape(re.sub(r"<.*?>", "", caption))] = texts
    return found


def write_rows(run_dir, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), run_dir / "predictions.parquet")


def test_classes_and_confusion_are_those_of_scikit_learn(run_dir):
    rows = pyarrow.parquet.read_table(run_dir / "predictions.parquet").slice(30).to_pydict()
    names = ["cat", "dog", HOSTILE]
    run = json.loads((run_dir / "run.json").read_text())
    run["graph"]["class_names"] = names
    (run_dir / "run.json").write_text(json.dumps(run))
    found = tables(run_page(run_dir))
    counts = sklearn.metrics.confusion_matrix(rows["label"], rows["prediction"], labels=names)
    shown = found["Which classes are confused: nodes by label (rows) and prediction (columns)"]
    assert [[int(cell or 0) for cell in row[1:]] for row in shown[1:]] == counts.tolist()
    precision, recall, f1, support = sklearn.metrics.precision_recall_fscore_support(
        rows["label"], rows["prediction"], labels=names
    )
    for place, row in enumerate(found["Each class on test nodes"][1:]):
        measures = [f"{100 * each[place]:.1f}" for each in (recall, precision, f1)]
        assert row == [names[place], str(support[place]), str(counts[:, place].sum()), *measures]


def test_unlabeled_nodes_come_first_with_counts_and_confidences_by_hand(run_dir):
    write_rows(
        run_dir, id=["a", "b", "c", "d", "e", "f"], prediction=["x", "x", "y", "x", "y", "x"],
        confidence=[0.995, 0.96, 0.4, 0.85, 0.97, 0.992],
        split=["", "", "", "", "test", "test"], label=[None, None, None, None, "x", "x"],
    )  # fmt: skip
    page = run_page(run_dir)
    found = tables(page)
    assert page.index('id="nodes"') < page.index("How far to trust it")
    assert found["Predictions for unlabeled nodes"][1:] == [
        ["x", "3", "75.0", "93.5"],
        ["y", "1", "25.0", "40.0"],
    ]
    sure = found["How sure: beside it, how many test nodes are right at this confidence"][1:]
    assert [row[:4] for row in sure] == [
        ["99 to 100", "1", "25.0", "100.0"], ["95 to 99", "1", "25.0", "0.0"],
        ["80 to 90", "1", "25.0", "–"], ["below 50", "1", "25.0", "–"],
    ]  # fmt: skip
    assert found["All unlabeled nodes"][1:] == [
        ["c", "y", "40.0%"], ["d", "x", "85.0%"], ["b", "x", "96.0%"], ["a", "x", "99.5%"],
    ]  # fmt: skip
    candidates = found["Good candidates for the next labels"][1:]
    assert [row[0] for row in candidates] == ["c", "d", "b", "a"]


def test_a_graph_without_unlabeled_nodes_shows_its_test_nodes(run_dir):
    page = run_page(run_dir)
    assert "No node is without a label, so these are the 30 test nodes." in " ".join(page.split())
    assert len(tables(page)["All test nodes"]) == 31
    assert "next labels" not in page


def test_a_run_without_any_measured_or_unlabeled_node_is_still_a_page(run_dir):
    write_rows(
        run_dir, id=["a", "b"], prediction=["x", "y"], confidence=[0.5, 0.6],
        split=["train", "train"], label=["x", "y"],
    )  # fmt: skip
    page = run_page(run_dir)
    check_self_contained(page)
    assert "<script" not in page
    assert "How far to trust it" not in page


def test_validation_nodes_that_trained_a_tuned_run_are_not_measured_on(run_dir):
    rows = pyarrow.parquet.read_table(run_dir / "predictions.parquet").slice(0, 30).to_pydict()
    write_rows(run_dir, **rows)
    page = run_page(run_dir)
    assert "Each class on validation nodes" in page
    assert "Most confident mistakes" in page
    (run_dir / "ensemble.json").write_text('{"trials": [], "metric": "accuracy"}')
    page = run_page(run_dir)
    check_self_contained(page)
    assert "Each class on validation nodes" not in page
    assert "Most confident mistakes" not in page


def test_a_million_nodes_are_counted_and_the_least_sure_are_listed(run_dir):
    generator = np.random.default_rng(0)
    count = 1_000_000
    confidence = generator.random(count)
    codes = generator.integers(0, 3, count)
    names = pyarrow.array(["cat", "dog", "cow"])
    known = np.arange(count) < 1_000
    write_rows(
        run_dir, id=pyarrow.array(np.arange(count)), prediction=names.take(pyarrow.array(codes)),
        confidence=pyarrow.array(confidence),
        split=pyarrow.array(np.where(known, "test", "")),
        label=names.take(pyarrow.array(codes, mask=~known)),
    )  # fmt: skip
    page = run_page(run_dir)
    assert len(page) < 600_000
    found = tables(page)
    rows = {row[0]: row[1] for row in found["Predictions for unlabeled nodes"][1:]}
    assert rows == {
        name: f"{np.count_nonzero(codes[1_000:] == code):,}"
        for code, name in enumerate(["cat", "dog", "cow"])
    }
    lowest = 1_000 + np.argsort(confidence[1_000:])[:2_000]
    assert [row[0] for row in found["The least sure unlabeled nodes"][1:]] == list(map(str, lowest))
    assert "predictions.parquet" in page


def test_several_targets_per_node_are_counted_each(run_dir):
    run = json.loads((run_dir / "run.json").read_text())
    run["graph"] |= {"multilabel": True, "class_names": ["x", "y", "z"]}
    (run_dir / "run.json").write_text(json.dumps(run))
    write_rows(
        run_dir, id=[1, 2, 3, 4], prediction=[["x", "y"], [], ["x"], ["z"]],
        confidence=[0.9, 0.8, 0.7, 0.6], split=["", "", "", "test"],
        label=pyarrow.array([None, None, None, ["z", "x"]], pyarrow.list_(pyarrow.string())),
    )  # fmt: skip
    targets = [{"target": "x", "known": 4, "positive": 2, "predicted": 4, "right": 1}]
    content = {"split": "test", "targets": targets}
    (run_dir / "breakdown.json").write_text(json.dumps(content))
    page = run_page(run_dir)
    check_self_contained(page)
    found = tables(page)
    assert found["Predictions for unlabeled nodes"][1:] == [
        ["x", "2", "66.7"], ["y", "1", "33.3"], ["z", "0", "0.0"],
    ]  # fmt: skip
    assert found["All unlabeled nodes"][1:] == [
        ["3", "x", "70.0%"], ["2", "–", "80.0%"], ["1", "x, y", "90.0%"],
    ]  # fmt: skip
    assert found["Each target on test nodes"][1] == ["x", "2", "4", "50.0", "25.0", "33.3"]
    assert "confused" not in page


def test_places_in_the_graph_show_accuracy_with_wilsons_interval(run_dir):
    content = {
        "split": "test",
        "degree": [{"from": 1, "to": 1, "nodes": 10, "right": 8, "unlabeled": 0}],
        "distance": [
            {"distance": 1, "nodes": 10, "right": 8, "unlabeled": 3},
            {"distance": None, "nodes": 0, "right": 0, "unlabeled": 1200},
        ],
    }
    (run_dir / "breakdown.json").write_text(json.dumps(content))
    found = tables(run_page(run_dir))
    # Wilson's interval of 8 in 10, as statsmodels has it: 0.4902 to 0.9433.
    assert found["By distance to the nearest label"][1:] == [
        ["1", "10", "80.0", "49.0 to 94.3", "3"],
        ["farther, or not connected", "0", "–", "–", "1,200"],
    ]
    assert "By degree" not in found  # all nodes have the same


def test_the_gain_of_the_regularizer_has_an_interval(run_dir):
    file = run_dir / "metrics.json"
    metrics = json.loads(file.read_text())
    term = {"acted": True, "baseline_valid_accuracy": 0.8, "gain": 0.05, "gain_error": 0.02}
    file.write_text(json.dumps(metrics | {"consistency": term}))
    text = " ".join("".join(Reader(run_page(run_dir)).text).split())
    assert "+5.00 points of accuracy on validation nodes (95% interval +1.08 to +8.92)." in text
    assert "80.0% of the validation nodes are right without it and 85.0% with it" in text
    term["gain_error"] = 0.04
    file.write_text(json.dumps(metrics | {"consistency": term}))
    assert "too close to tell" in run_page(run_dir)


def test_long_class_names_break_between_words_only(run_dir):
    write_rows(
        run_dir, id=["first-second-third", "b"], confidence=[0.5, 0.6],
        prediction=["cli-mono", "a name of several words that is long"],
    )  # fmt: skip
    page = run_page(run_dir)
    assert '<th scope="row" class="whole">first-second-third</th>' in page
    assert '<th scope="row" class="whole">cli-mono</th>' in page
    assert '<th scope="row">a name of several words that is long</th>' in page
    assert "anywhere" not in re.search(r"th, td \{.*?\}", page, re.DOTALL)[0]

"""One seed of a row decides whether all of it still holds."""

import json
from dataclasses import dataclass

import pytest

NOW = "now"


class FakeTask:
    """Its key is its name; the run of it is that of `found`."""

    def __init__(self, record):
        self.name = f"{record['encoder']} {record['regularizer']} {record['seed']}"
        self.seed = record["seed"]

    def key(self, graph):
        return f"{self.name} on {graph}"


@dataclass
class FakeRunner:
    module: object
    out: object = None
    jobs: int = 1
    on_run: object = None

    def graph_of(self, seed):
        return f"split {seed}"

    def run(self, tasks):
        records = []
        for task in tasks:
            self.module.asked.append(task.name)
            records.append({**self.module.found[task.name], "key": task.key(f"split {task.seed}")})
            self.on_run(records[-1])
        return records


@pytest.fixture
def confirm(benchmark_module, tmp_path, monkeypatch):
    module = benchmark_module("confirm")
    for each in (module, benchmark_module("stored_rows")):
        monkeypatch.setattr(each, "code_version", lambda kind: NOW)
    monkeypatch.setattr(module, "comparison_of", lambda *_: FakeRunner(module))
    tasks = {"accuracy": lambda graph, content, record: FakeTask(record)}
    monkeypatch.setattr(module, "TASKS", tasks)
    module.asked = []
    return module


def run(regularizer, seed, test, **more):
    return {"encoder": "ssgc", "regularizer": regularizer, "seed": seed, "valid_accuracy": 0.5,
            "test_accuracy": test, **more}  # fmt: skip


def write(folder, *runs):
    file = folder / "cora.json"
    file.write_text(json.dumps({"runs": runs, "command": "as it was"}))
    return file


def call(confirm, file):
    return confirm.confirm("accuracy", file, None, file.parent, 1)


def test_a_row_whose_lowest_seed_is_the_same_is_confirmed_whole(confirm, tmp_path):
    file = write(tmp_path, run("scr", 1, 0.9, code="old"), run("scr", 0, 0.8, key="old"))
    confirm.found = {"ssgc scr 0": run("scr", 0, 0.8)}
    assert call(confirm, file) == []
    content = json.loads(file.read_text())
    assert content["command"] == "as it was"
    assert content["runs"] == [
        run("scr", 1, 0.9, code="old", confirmed=NOW, key="ssgc scr 1 on split 1"),
        run("scr", 0, 0.8, confirmed=NOW, key="ssgc scr 0 on split 0"),
    ]


def test_a_row_that_differs_in_its_last_digit_is_named_and_left_as_it_was(confirm, tmp_path):
    file = write(tmp_path, run("none", 0, 0.7), run("scr", 0, 0.8))
    confirm.found = {"ssgc none 0": run("none", 0, 0.7), "ssgc scr 0": run("scr", 0, 0.8 + 1e-16)}
    (wrong,) = call(confirm, file)
    assert "cora.json ssgc scr: run it again, test_accuracy was 0.8 and is 0.8000000" in wrong
    stored = json.loads(file.read_text())["runs"]
    assert [each.get("confirmed") for each in stored] == [NOW, None]


def test_only_rows_older_than_the_code_are_run(confirm, tmp_path):
    file = write(tmp_path, run("none", 0, 0.7, code=NOW), run("scr", 0, 0.8, confirmed=NOW),
                 run("scr-m", 0, 0.8, code=NOW), run("scr-m", 1, 0.8))  # fmt: skip
    confirm.found = {"ssgc scr-m 1": run("scr-m", 1, 0.8)}
    assert call(confirm, file) == []
    assert confirm.asked == ["ssgc scr-m 1"]
    assert call(confirm, file) == []
    assert confirm.asked == ["ssgc scr-m 1"]


def test_settings_that_are_gone_are_named(confirm, tmp_path, monkeypatch):
    def task(graph, content, record):
        raise KeyError("firm")

    monkeypatch.setattr(confirm, "TASKS", {"accuracy": task})
    (wrong,) = call(confirm, write(tmp_path, run("scr", 0, 0.8)))
    assert wrong.endswith("its settings 'firm' are no longer there")


def test_smoothed_accuracies_and_lists_by_split_are_compared_too(confirm):
    stored = {"test_accuracy": 0.8, "smooth_test_accuracy": 0.9}
    same = {"test_accuracy": 0.8, "smooth": {"test_accuracy": 0.9}}
    other = {"test_accuracy": 0.8, "smooth": {"test_accuracy": 0.91}}
    assert confirm.differences(stored, same) == ""
    assert confirm.differences(stored, other) == "smooth_test_accuracy was 0.9 and is 0.91"
    assert confirm.differences({"test_accuracy": [0.8, 0.7]}, {"test_accuracy": 0.8}) == ""


@pytest.mark.parametrize("indent", [1, 2])
def test_a_file_keeps_its_layout(confirm, tmp_path, indent):
    file = tmp_path / "cora.json"
    text = json.dumps({"rows": [{"split": 0}]}, indent=indent) + "\n"
    file.write_text(text)
    confirm.write(file, json.loads(text))
    assert file.read_text() == text

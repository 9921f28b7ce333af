"""Which rows of the results are older than the code."""

import json

import pytest

NOW, BEFORE = "now", "before"


@pytest.fixture
def rows(benchmark_module, monkeypatch):
    module = benchmark_module("stored_rows")
    monkeypatch.setattr(module, "code_version", lambda kind: NOW)
    return module


def run(regularizer, seed, **versions):
    return {"encoder": "ssgc", "regularizer": regularizer, "seed": seed, **versions}


def write(folder, path, **content):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(json.dumps(content))


def test_check_names_rows_older_than_the_code_with_their_version(rows, tmp_path, capsys):
    write(
        tmp_path, "accuracy/cora.json", code=NOW,
        runs=[
            run("none", 0, code=NOW), run("none", 1, code=BEFORE, confirmed=NOW),
            run("scr", 0, code=NOW), run("scr", 1, code=BEFORE),
            run("scr-m", 0), run("scr-m", 1, code=BEFORE, confirmed="long ago"),
        ],
    )  # fmt: skip
    steps = [{"nodes": 5, "step": "synth", "code": BEFORE}, {"step": "ingest", "code": NOW}]
    write(tmp_path, "scale.json", code=NOW, rows=steps)
    write(tmp_path, "grand.json", rows=[{"graph": "cora", "seed": 0}])
    write(tmp_path, "propagation.json", nodes=3)
    write(tmp_path, "sampling.json", code=NOW, rows=[{"name": "scr"}])
    write(tmp_path, "search/cora.json", chosen=[])
    write(tmp_path, "networks/cora-search.json", chosen=[])
    assert rows.check(tmp_path) == 1
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "accuracy/cora.json: ssgc scr: now, before, the code is now",
        "accuracy/cora.json: ssgc scr-m: none, before, the code is now",
        "grand.json: cora: none, the code is now",
        "propagation.json: all: none, the code is now",
        "scale.json: 5 synth: before, the code is now",
    ]


def test_rows_of_peers_are_older_only_if_the_peers_changed(rows, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(rows, "code_version", lambda kind: f"{kind} now")
    splits = [{"method": "scr", "labels": "20", "split": split} for split in (0, 1)]
    ours = [splits[0] | {"code": "before"}, splits[1] | {"code": "strangers now"}]
    peer = {"method": "gcn", "labels": "5", "split": 0, "code": "stranger_peers now"}
    write(tmp_path, "strangers/cora.json", rows=ours)
    write(tmp_path, "stranger_peers/cora.json", rows=[peer])
    assert rows.check(tmp_path) == 1
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "strangers/cora.json: scr 20: before, strangers now, the code is strangers now"
    ]


def test_check_is_silent_where_all_rows_are_current(rows, tmp_path, capsys):
    write(tmp_path, "combinations/cora.json",
          runs=[{"encoder": "gamlp", "method": "rlu+scr", "seed": 0, "code": NOW}])  # fmt: skip
    assert rows.check(tmp_path) == 0
    assert capsys.readouterr().out == ""


def test_the_script_that_writes_the_tables_returns_what_check_found(benchmark_module, monkeypatch):
    module = benchmark_module("readme")
    monkeypatch.setattr("sys.argv", ["readme.py", "--check"])
    monkeypatch.setattr(module, "write_tables", lambda: pytest.fail("wrote tables"))
    for found in (0, 1):
        monkeypatch.setattr(module, "check", lambda found=found: found)
        with pytest.raises(SystemExit) as left:
            module.main()
        assert left.value.code == found

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from scr.cli import app
from scr.graph import open_store

# The graphs here are too small for a training node of every class.
pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")

EDGES = "source,target\na,b\nb,a\nb,b\nb,c\nc,d\n"
NODES = "id,label,f1,f2,split\na,x,1,2,train\nb,y,3,4,train\nc,x,5,6,val\nd,y,7,8,test\n"


def scr(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def tables(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "edges.csv").write_text(EDGES)
    (folder / "nodes.csv").write_text(NODES)
    return folder


def assert_refused(result, store, *said):
    """Exit code 2, one message without a traceback, and nothing on disk."""
    assert result.exit_code == 2, result.output
    for text in said:
        assert text in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
    left = [path.name for path in store.parent.iterdir() if store.name in path.name]
    assert left == []


def test_tables_become_a_store_with_what_was_done(tables, tmp_path):
    result = scr("ingest", tables, tmp_path / "store")
    assert result.exit_code == 0, result.output
    for text in (
        "4",
        "6 stored, undirected",
        "2 dense",
        "2 train, 1 valid, 1 test",
        "read 5 edges of 4 nodes",
        "dropped 1 self-loops",
    ):
        assert text in result.stdout
    graph = open_store(tmp_path / "store")
    assert graph.ids.tolist() == ["a", "b", "c", "d"]
    assert any("self-loops" in step for step in graph.steps)


def test_options_reach_the_graph(tables, tmp_path):
    keep = ("--directed", "--keep-self-loops", "--keep-duplicates")
    result = scr("ingest", tables, tmp_path / "store", *keep, "--per-class", "1,0")
    assert result.exit_code == 0, result.output
    graph = open_store(tmp_path / "store")
    assert graph.directed
    expected = [[0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    assert len(graph.train) == 2


def test_a_plan_is_printed_and_nothing_is_written(tables, tmp_path):
    result = scr("ingest", tables, tmp_path / "store", "--plan", "--memory", "8GiB")
    assert result.exit_code == 0, result.output
    for text in ("memory: all edges at once", "of 8.00GiB", "for the store", "about 0 seconds"):
        assert text in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_a_budget_that_is_too_small_is_refused(tables, tmp_path):
    result = scr("ingest", tables, tmp_path / "store", "--memory", "2MiB")
    assert_refused(result, tmp_path / "store", "the budget is 2.00MiB", "the smallest that works")
    assert_refused(
        scr("ingest", tables, tmp_path / "store", "--memory", "much"), tmp_path / "store", "4GiB"
    )


def test_features_are_linked_if_asked(tables, tmp_path):
    np.save(tables / "features.npy", np.ones((4, 3), np.float32))
    result = scr("ingest", tables, tmp_path / "store", "--link")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "store" / "features.npy").exists()
    assert scr("verify", tmp_path / "store").exit_code == 0
    (tables / "features.npy").unlink()
    gone = scr("verify", tmp_path / "store")
    assert gone.exit_code == 2
    assert "is missing" in gone.stderr


def test_columns_and_features_can_be_named(tmp_path):
    pd.DataFrame({"key": [5, 6], "topic": ["u", "v"], "part": ["train", "test"]}).to_parquet(
        tmp_path / "nodes.parquet"
    )
    pd.DataFrame({"from": [5], "to": [6]}).to_parquet(tmp_path / "edges.parquet")
    np.save(tmp_path / "vectors.npy", np.ones((2, 3), np.float16))
    columns = ("--id-column", "key", "--label-column", "topic", "--split-column", "part")
    result = scr(
        "ingest", tmp_path, tmp_path / "s", *columns, "--features", tmp_path / "vectors.npy"
    )
    assert result.exit_code == 0, result.output
    graph = open_store(tmp_path / "s")
    assert (graph.ids.tolist(), graph.class_names, graph.num_features) == ([5, 6], ("u", "v"), 3)


def test_a_store_that_exists_is_replaced_only_if_asked(tables, tmp_path):
    store = tmp_path / "store"
    assert scr("ingest", tables, store).exit_code == 0
    before = open_store(store).fingerprint()
    (tmp_path / ".store.partial").mkdir()  # as after a kill when the store had its name
    (tmp_path / ".store.partial" / "lock").touch()
    result = scr("ingest", tables, store, "--directed")
    assert result.exit_code == 2
    assert not (tmp_path / ".store.partial").exists()
    assert "exists already" in result.stderr
    assert "--overwrite" in result.stderr
    assert open_store(store).fingerprint() == before
    assert scr("ingest", tables, store, "--directed", "--overwrite").exit_code == 0
    assert open_store(store).directed


def test_overwrite_never_removes_what_is_not_a_store(tables, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "dear.jpg").write_text("dear")
    assert scr("ingest", tables, photos, "--overwrite").exit_code == 2
    assert [path.name for path in photos.iterdir()] == ["dear.jpg"]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("edges.csv", "c,d", "c,z", "row 5: the target is `z`"),
        ("nodes.csv", "d,y", "a,y", "the id `a` twice, in rows 1 and 4"),
        ("nodes.csv", "label", "topic", "no column `label`; its columns are `id`, `topic`"),
        ("nodes.csv", "x,1,2", "x,1,nan", "f2"),
        ("nodes.csv", "x,1,2", "x,1,inf", "expected a finite number"),
        ("nodes.csv", "x,1,2", "x,1,tall", "`f2` holds string such as 'tall'"),
        ("nodes.csv", "b,y,3", "b,,3", "no label"),
        ("nodes.csv", "train", "learn", "the split is `learn`"),
        ("edges.csv", EDGES, "source\na\n", "its columns are `source`"),
    ],
)
def test_bad_tables_are_refused(tables, tmp_path, file, old, new, said):
    (tables / file).write_text((tables / file).read_text().replace(old, new))
    assert_refused(scr("ingest", tables, tmp_path / "store"), tmp_path / "store", said)


def test_a_missing_source_is_refused_with_what_would_do(tmp_path):
    result = scr("ingest", tmp_path / "nowhere", tmp_path / "store")
    assert_refused(result, tmp_path / "store", "nowhere` does not exist", "digits")


@pytest.mark.parametrize("name", ["edges.csv", "nodes.csv"])
def test_a_missing_table_is_refused(tables, tmp_path, name):
    (tables / name).unlink()
    result = scr("ingest", tables, tmp_path / "store")
    assert_refused(result, tmp_path / "store", f"`{name}`")


def test_features_of_the_wrong_length_are_refused(tables, tmp_path):
    np.save(tables / "features.npy", np.zeros((3, 2)))
    result = scr("ingest", tables, tmp_path / "store")
    assert_refused(result, tmp_path / "store", "(3, 2); expected 4 rows")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edge_index": np.array([[0], [9]])}, "outside the graph"),
        ({"x": np.array([[np.nan], [1.0], [1.0]], np.float32)}, "Feature 0 of node 0 is nan"),
        ({"y": np.array([0, 1, -4])}, "-4"),
        ({"y": np.array([0, 1, 900])}, "out of range"),
        ({"val_idx": np.array([0])}, "overlap"),
        ({"val_idx": np.array([], dtype=np.int64)}, "valid split is empty"),
        ({"x": np.ones((2, 1), np.float32)}, "expected 3"),
    ],
)
def test_bad_bundles_are_refused(tmp_path, changes, said):
    bundle = {
        "edge_index": np.array([[0, 1], [1, 2]]),
        "x": np.ones((3, 1), np.float32),
        "y": np.array([0, 1, 0]),
        "train_idx": np.array([0]),
        "val_idx": np.array([1]),
    }
    np.savez(tmp_path / "g.npz", **(bundle | changes))
    assert_refused(scr("ingest", tmp_path / "g.npz", tmp_path / "store"), tmp_path / "store", said)


class Executes:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path):
    folder = tmp_path / "planetoid"
    folder.mkdir()
    witness = tmp_path / "witness"
    for part in ("x", "y", "tx", "ty", "allx", "ally", "graph"):
        (folder / f"ind.evil.{part}").write_bytes(pickle.dumps(Executes(f"touch {witness}")))
    (folder / "ind.evil.test.index").write_text("0\n")
    result = scr("ingest", folder, tmp_path / "store")
    assert_refused(result, tmp_path / "store", "system`, which graph files have no use for")
    assert not witness.exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--per-class", "2,3", "--random", "0.1,0.1"),
        ("--per-class", "many"),
        ("--random", "0.9,0.9"),
        ("--splits", "nowhere.npz"),
        ("--split", "4"),
        ("--split", "-1"),
        ("--no-such-option",),
    ],
)
def test_splits_that_cannot_be_made_and_unknown_options_are_refused(tables, tmp_path, options):
    result = scr("ingest", tables, tmp_path / "store", *options)
    assert_refused(result, tmp_path / "store")


def test_a_class_without_a_training_label_is_a_warning(tables, tmp_path):
    (tables / "nodes.csv").write_text(NODES.replace("b,y,3,4,train", "b,y,3,4,val"))
    result = scr("ingest", tables, tmp_path / "store")
    assert result.exit_code == 0, result.output
    assert "warning: 1 of 2 classes have no training label (y)" in result.stderr


def test_debug_shows_the_error_itself(tmp_path):
    result = scr("ingest", tmp_path / "nowhere", tmp_path / "store", "--debug")
    assert type(result.exception).__name__ == "SourceError"


def test_a_typed_bundle_becomes_a_store_with_its_types_and_relations(tmp_path):
    np.savez(
        tmp_path / "toy.npz",
        **{
            "node_types": np.array(["author", "paper"]), "num_nodes": np.array([2, 4]),
            "target_type": np.array("paper"), "rel:author:writes:paper": [[0, 1, 1], [0, 0, 2]],
            "rel:paper:cites:paper": [[0, 3], [1, 3]], "x:author": np.ones((2, 5)),
            "y": np.array([0, 1, 0, 1]),
        },
    )  # fmt: skip
    result = scr("ingest", tmp_path / "toy.npz", tmp_path / "store", "--per-class", "1,0")
    assert result.exit_code == 0, result.output
    for text in (
        "paper: 4, features: none (target)",
        "author: 2, features: 5 dense",
        "author:writes:paper: 3",
        "paper:cites:paper: 1",
        "paper:cites:paper: dropped 1 self-loops",
        "8 stored, undirected",
    ):
        assert text in result.stdout
    verified = scr("verify", tmp_path / "store")
    assert "is intact" in verified.stdout.replace("\n", " ")
    with (tmp_path / "store" / "edge_types.npy").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\x07")
    altered = scr("verify", tmp_path / "store")
    assert altered.exit_code == 2
    assert "edge_types" in altered.stderr
    planned = scr("ingest", tmp_path / "toy.npz", tmp_path / "other", "--plan")
    assert "read in memory" in planned.stdout
    refused = scr("ingest", tmp_path / "toy.npz", tmp_path / "other", "--directed")
    assert_refused(refused, tmp_path / "other", "Directed edges were asked for, of 2 relations")


def test_synth_writes_a_store_that_verify_accepts_until_it_is_altered(tmp_path):
    size = ("--nodes", "300", "--edges", "900", "--features", "4", "--classes", "3")
    made = scr("synth", tmp_path / "store", *size)
    assert made.exit_code == 0, made.output
    assert "300" in made.stdout
    assert scr("verify", tmp_path / "store").exit_code == 0
    with (tmp_path / "store" / "labels.npy").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    altered = scr("verify", tmp_path / "store")
    assert altered.exit_code == 2
    assert "labels.npy` has changed" in altered.stderr
    with (tmp_path / "store" / "labels.npy").open("r+b") as file:
        file.truncate(500)
    truncated = scr("verify", tmp_path / "store")
    assert truncated.exit_code == 2
    assert "truncated" in truncated.stderr


def test_synth_shards_can_be_ingested(tmp_path):
    size = ("--nodes", "300", "--edges", "900", "--features", "4", "--classes", "3")
    assert scr("synth", "--source", tmp_path / "raw", *size).exit_code == 0
    assert scr("ingest", tmp_path / "raw", tmp_path / "store").exit_code == 0
    assert scr("synth", tmp_path / "direct", *size).exit_code == 0
    direct, ingested = open_store(tmp_path / "direct"), open_store(tmp_path / "store")
    assert direct.fingerprint() == ingested.fingerprint()


@pytest.mark.parametrize(
    "options",
    [("--nodes", "0"), ("--homophily", "2"), ("--dtype", "int8"), ("--source", "also"), ("-x",)],
)
def test_bad_settings_of_synth_are_refused(tmp_path, options):
    assert_refused(scr("synth", tmp_path / "store", *options), tmp_path / "store")


def test_the_console_script_prints_one_message_and_exits_with_2(tmp_path):
    code = "from scr.cli import main; main()"
    command = [sys.executable, "-c", code, "ingest", str(tmp_path / "no"), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: `{tmp_path / 'no'}` does not exist")
    assert "Traceback" not in done.stderr


def test_help_does_not_import_what_only_commands_need():
    code = (
        "import sys; from scr.cli import app; heavy = {'torch', 'numpy', 'numba', 'pyarrow'};"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "")

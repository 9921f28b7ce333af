"""JSON files of ours: everything that can be wrong with one is a sentence with its name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import StoreError
from scr.storage import check_fields, read_json, read_object


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as JSON"),
        (b'{"a": ', "cannot be read as JSON"),
        (b"\xff\xfe", "no UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 10_000, "cannot be read as JSON"),
    ],
)
def test_what_is_no_json_is_said_with_the_name_of_the_file(tmp_path, content, message):
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(StoreError, match=rf"The record `.*record.json` .*{message}"):
        read_json(tmp_path / "record.json", what="record")


def test_missing_files_and_folders_are_said_as_such(tmp_path):
    with pytest.raises(StoreError, match=r"a.json` cannot be read: it does not exist"):
        read_json(tmp_path / "a.json")
    with pytest.raises(StoreError, match="cannot be read as JSON: it is a folder"):
        read_json(tmp_path)
    (tmp_path / "zeros.json").symlink_to("/dev/zero")
    with pytest.raises(StoreError, match=r"zeros.json` .* a pipe or a device"):
        read_json(tmp_path / "zeros.json")


def test_an_object_is_expected(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(StoreError, match=r"a.json` holds a list; expected a JSON object"):
        read_object(tmp_path / "a.json")


FIELDS = {"seed": int, "graph.names": list[str], "share": float | None, "subsets?": list[list[str]]}
SOUND = {"seed": 1, "graph": {"names": ["a"]}, "share": 0.5, "subsets": [["a"], []]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": True}, "true or false as `seed`; expected a whole number"),
        ({"seed": 1.5}, "the number 1.5 as `seed`"),
        ({"seed": 10**30}, "a number beyond all bounds as `seed`"),
        ({"graph": {}}, "has no `graph.names`; expected a list of texts"),
        ({"graph": 3}, "has no `graph.names`"),
        ({"graph": {"names": ["a", 1]}}, "a list as `graph.names`; expected a list of texts"),
        ({"share": float("nan")}, "as `share`; expected a number or null"),
        ({"subsets": [1]}, "as `subsets`; expected a list of lists of texts"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, changes, message):
    with pytest.raises(StoreError) as error:
        check_fields(tmp_path / "run.json", SOUND | changes, FIELDS)
    assert "run.json`" in str(error.value)
    assert message in str(error.value)


def test_sound_fields_pass_also_without_those_that_may_be_missing(tmp_path):
    check_fields(tmp_path, SOUND, FIELDS)
    check_fields(tmp_path, {**SOUND, "share": None, "other": 1}, FIELDS)
    check_fields(tmp_path, {key: SOUND[key] for key in ("seed", "graph", "share")}, FIELDS)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["seed", "graph", "names", "share"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_any_json_is_either_sound_or_one_sentence(tmp_path_factory, value):
    file = tmp_path_factory.mktemp("json") / "run.json"
    file.write_text(json.dumps(value))
    try:
        content = read_object(file, fields=FIELDS)
    except StoreError:
        return
    assert type(content["seed"]) is int
    assert all(isinstance(name, str) for name in content["graph"]["names"])

"""A fixed selection of the damage campaign, and the campaign itself against known answers."""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("campaigns", reason="a package without its campaigns")

from campaigns import damage, generator
from campaigns.damage import Damage, _judged
from campaigns.damage_bytes import BYTES, damage_bytes, damage_entry
from campaigns.damage_formats import BY_SUFFIX, hostile_pickle
from campaigns.damage_subjects import Subject, digest, graph_digest, subjects

QUICK = {"store", "store of types", "run"}
"""Made in this process, within a second."""
CASES = 120


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """The campaign with the subjects that are made fast."""
    shared = tmp_path_factory.mktemp("shared")
    chosen = [each for each in subjects() if each.name in QUICK or each.name.startswith("source ")]
    made = Damage()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(damage, "subjects", lambda: chosen)
        patch.setattr(damage, "by_name", lambda: {each.name: each for each in chosen})
        patch.setattr(damage, "_limit_memory", lambda: None)  # other tests share this process
        # Other tests have begun in this process what a fork must not inherit.
        patch.setattr(damage, "in_child", lambda work: work())
        patch.setattr(damage, "import_everything", lambda: None)
        made.prepare(shared)
        made.start(shared)
        with np.errstate(all="ignore"):
            yield made


def test_damaged_files_are_refused_by_name_or_without_effect(campaign, tmp_path):
    outcomes = []
    for number in range(CASES):
        folder = tmp_path / f"case-{number}"
        folder.mkdir()
        found = campaign.run(number, generator("damage", 0, number), folder)
        assert found.outcome in Damage.good, (number, found)
        outcomes.append(found.outcome)
    assert {"equal", "refused", "another source"} <= set(outcomes)


def test_a_case_is_the_same_when_it_is_run_again(campaign, tmp_path):
    results = []
    for again in range(2):
        (tmp_path / f"{again}").mkdir()
        results.append(campaign.run(7, generator("damage", 0, 7), tmp_path / f"{again}"))
    assert results[0] == results[1]


def use(outcome):
    def used(folder):
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return used


def outcome_of(campaign, tmp_path, outcome, *, is_ours=True, is_forged=False):
    campaign.expected["x"] = "same"
    subject = Subject("x", None, use(outcome), is_ours)
    return campaign._use(subject, tmp_path, tmp_path / "file.npy", is_forged)[0]


def test_every_way_to_go_wrong_is_told_apart(campaign, tmp_path):
    from scr.errors import StoreError

    found = {
        "equal": "same",
        "used in silence": "other",
        "unexpected": KeyError("a"),
        "refused": StoreError("`file.npy` is damaged"),
        "unnamed": StoreError("something is damaged"),
        "long message": damage.Refused("`file.npy` " + "x" * 2000),
        "hang": damage._Hang(),
    }
    for expected, outcome in found.items():
        assert outcome_of(campaign, tmp_path, outcome) == expected
    assert outcome_of(campaign, tmp_path, "other", is_ours=False) == "another source"
    assert outcome_of(campaign, tmp_path, "other", is_forged=True) == "forged"


def test_a_pickle_that_runs_is_seen(campaign, tmp_path, monkeypatch):
    def run(folder):
        (folder / "canary").touch()
        return "same"

    subject = Subject("x", lambda folder: None, run)
    campaign.expected["x"] = "same"
    monkeypatch.setattr(campaign, "subjects", {"x": subject})
    monkeypatch.setattr(campaign, "names", ["x"])
    monkeypatch.setattr(campaign, "chances", np.ones(1))
    (campaign.shared / "x").mkdir()
    (campaign.shared / "x" / "file").write_text("content")
    assert campaign.run(0, generator("damage", 0, 0), tmp_path).outcome == "execution"


@pytest.mark.parametrize("way", BYTES)
def test_damage_of_bytes_changes_them(way):
    content = bytearray(range(200))
    before = bytes(content)
    for seed in range(20):
        way(content, np.random.default_rng(seed))
        if bytes(content) != before:
            return
    pytest.fail("nothing was changed in twenty tries")


def test_damage_is_decided_by_the_generator(tmp_path):
    made = []
    for again in range(2):
        file = tmp_path / f"{again}.npy"
        np.save(file, np.arange(50))
        said = damage_bytes(file, np.random.default_rng(3))
        made.append((said, file.read_bytes()))
    assert made[0] == made[1]


def test_every_format_can_be_damaged_by_what_it_holds(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"a": [1, {"b": 2}]}))
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    np.savez(tmp_path / "a.npz", a=np.arange(3), b=np.eye(2))
    (tmp_path / "a.csv").write_text("id,x\n1,2\n3,4\n")
    for file in sorted(tmp_path.glob("a.*")):
        before, changed = file.read_bytes(), 0
        for seed in range(10):
            for way in BY_SUFFIX[file.suffix]:
                file.write_bytes(before)
                try:
                    way(file, np.random.default_rng(seed))
                except (ValueError, TypeError):
                    continue  # this damage cannot be done to this file
                changed += file.read_bytes() != before
        assert changed > 6, file.name


def test_entries_become_something_else(tmp_path):
    said = set()
    for seed in range(40):
        file = tmp_path / f"{seed}"
        file.write_text("content")
        said.add(damage_entry(file, np.random.default_rng(seed)))
        assert file.is_symlink() or not file.is_file()
    assert len(said) == 8


def test_the_hostile_pickle_would_run_where_it_is_trusted(tmp_path):
    import pickle

    made = hostile_pickle(tmp_path / "canary", np.random.default_rng(0))
    for seed in range(20):
        made = hostile_pickle(tmp_path / "canary", np.random.default_rng(seed))
        if b"system" in made:
            break
    pickle.loads(made)
    assert (tmp_path / "canary").exists()


def test_digests_tell_types_and_values_apart():
    arrays = [np.zeros(2, np.int32), np.zeros(2, np.int64), np.ones(2, np.int64), np.zeros((2, 1))]
    assert len({digest(array) for array in arrays}) == len(arrays)


def test_a_refusal_is_judged_by_what_it_names(tmp_path):
    file = tmp_path / "store" / "labels.npy"
    assert _judged("`labels.npy` is damaged", "", tmp_path, file)[0] == "refused"
    assert _judged(f"`{tmp_path}` is damaged", "", tmp_path, file)[0] == "refused"
    assert _judged("it is damaged", "", tmp_path, file)[0] == "unnamed"
    assert _judged("`labels.npy`: unexpected KeyError", "", tmp_path, file)[0] == "unexpected"


def test_graphs_that_differ_have_other_digests():
    from campaigns.damage_subjects import random_graph

    assert graph_digest(random_graph()) == graph_digest(random_graph())
    assert graph_digest(random_graph()) != graph_digest(random_graph(61))

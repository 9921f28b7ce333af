"""Errors keep what they say on their way between processes."""

import pickle

import pytest

from scr.errors import ConfigError, ConfigErrors, MemoryBudgetError, PairError, RunError

WRONG = [
    ConfigError("training.epochs", 0, "at least 1"),
    ConfigError("training.epoch", 3, "a known setting", hint="did you mean `epochs`?"),
    ConfigErrors([ConfigError("a.b", 1, "two"), ConfigError("a.c", object(), "three", hint="x")]),
    PairError("sign", "grand", fitting="`ssgc`", reason="needs a fixed mixture"),
    RunError("It is there already", hint="choose another"),
    MemoryBudgetError("Too large"),
]


@pytest.mark.parametrize("error", WRONG, ids=lambda error: type(error).__name__)
def test_an_error_of_a_worker_says_the_same_in_the_process_that_started_it(error):
    error.add_note("seen in a worker")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert (copy.message, copy.hint) == (error.message, error.hint)
    assert getattr(copy, "setting", None) == getattr(error, "setting", None)
    assert copy.__notes__ == ["seen in a worker"]


def test_a_value_of_any_length_is_shown_by_its_ends():
    error = RunError(f"`{'x' * 5000}.npy` is damaged\n{'y' * 900}", hint="z" * 3000)
    first, second = error.message.split("\n")
    assert first.startswith("`xxx")
    assert first.endswith(".npy` is damaged")
    assert second == "y" * 900
    assert max(len(first), len(error.hint)) <= 1000

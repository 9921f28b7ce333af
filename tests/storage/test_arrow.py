"""Arrow arrays as `pyarrow.array` makes them, without pandas."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scr.storage import arrow_array

NUMBERS = st.sampled_from(["int8", "int32", "int64", "uint16", "float32", "float64"])


@given(st.data())
def test_numbers_are_those_of_pyarrow(data):
    values = data.draw(hnp.arrays(data.draw(NUMBERS), st.integers(0, 20)))
    missing = data.draw(st.none() | hnp.arrays(np.bool_, len(values)))
    made, expected = arrow_array(values, missing), pa.array(values, mask=missing)
    made.validate(full=True)
    assert made.type == expected.type
    assert str(made.to_pylist()) == str(expected.to_pylist())  # NaN is not equal to itself


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8))
def test_texts_are_those_of_pyarrow(texts):
    made = arrow_array(texts)
    made.validate(full=True)
    assert made.equals(pa.array(texts, pa.string()))


@pytest.mark.parametrize("kind", ["<U4", object])
def test_arrays_of_texts_and_strided_numbers(kind):
    assert arrow_array(np.array(["a", "", "déjà"], dtype=kind)).to_pylist() == ["a", "", "déjà"]
    assert arrow_array(np.arange(9)[::3]).to_pylist() == [0, 3, 6]


def test_pandas_is_not_imported():
    code = (
        "import sys, numpy as np; from scr.storage import arrow_array;"
        "arrow_array(np.arange(3)), arrow_array(['a']); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

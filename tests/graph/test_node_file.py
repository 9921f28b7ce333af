from __future__ import annotations

import numpy as np
import pytest

from scr.errors import SourceError
from scr.graph import read_nodes


def test_numbers_are_read_as_they_were_written(tmp_path):
    np.save(tmp_path / "nodes.npy", np.array([5, 1, 5]))
    assert read_nodes(tmp_path / "nodes.npy").tolist() == [5, 1, 5]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"1 2 3", b"\x93NUMPY\x01\x00"])
def test_other_files_are_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "nodes.npy").write_bytes(content)
    with pytest.raises(SourceError, match=r"cannot be read as a \.npy file of node numbers"):
        read_nodes(tmp_path / "nodes.npy")
    with pytest.raises(SourceError, match="does not exist"):
        read_nodes(tmp_path / "missing.npy")

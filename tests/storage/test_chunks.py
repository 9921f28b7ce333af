"""Checksums of chunks that were hashed while a file was written, in any order."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scr.storage import _manifest as manifest
from scr.storage import chunk_digest, whole_chunks

CHUNK = 64


@given(
    size=st.integers(0, 600),
    cuts=st.lists(st.integers(0, 600), max_size=8),
    itemsize=st.sampled_from([1, 2, 4, 8]),
)
def test_chunks_of_slabs_and_the_rest_are_those_of_all(size, cuts, itemsize):
    before, manifest.CHUNK_BYTES = manifest.CHUNK_BYTES, CHUNK
    try:
        array = np.random.default_rng(size).integers(0, 255, size * itemsize, np.uint8)
        array = array.view(f"u{itemsize}")
        data, total = array.view(np.uint8).data, array.nbytes
        bounds = sorted({0, total, *(cut * itemsize for cut in cuts if cut <= size)})
        known = {}
        for start, stop in itertools.pairwise(bounds):
            for number, part in whole_chunks(data[start:stop], start, total):
                known[number] = chunk_digest(part)
        expected = [
            hashlib.blake2b(data[at : at + CHUNK], digest_size=8).hexdigest()
            for at in range(0, total, CHUNK)
        ]
        assert all(expected[number] == digest for number, digest in known.items())
        whole = [
            at // CHUNK
            for at in range(0, total, CHUNK)
            if not any(at < cut < min(at + CHUNK, total) for cut in bounds)
        ]
        assert sorted(known) == whole
        assert list(manifest.describe(array, known).checksums) == expected
    finally:
        manifest.CHUNK_BYTES = before

"""Checksums of chunks that are hashed while a file is written from its end."""

from __future__ import annotations

import itertools

import numpy as np
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from scr.storage import BackwardChunks, chunk_digest
from scr.storage import _manifest as manifest

CHUNK = 64


@given(
    size=st.integers(0, 600),
    cuts=st.lists(st.integers(0, 600), max_size=8),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    data=st.data(),
)
@settings(max_examples=500)
def test_chunks_of_pieces_and_the_rest_are_those_of_all(size, cuts, itemsize, data):
    before, manifest.CHUNK_BYTES = manifest.CHUNK_BYTES, CHUNK
    try:
        array = np.random.default_rng(size).integers(0, 255, size * itemsize, np.uint8)
        array = array.view(f"u{itemsize}")
        content, total = array.view(np.uint8).data, array.nbytes
        bounds = sorted({0, total, *(cut * itemsize for cut in cuts if cut <= size)})
        skipped = data.draw(st.sampled_from([None, *bounds]))
        known, chunks = {}, BackwardChunks(total)
        for start, stop in reversed(list(itertools.pairwise(bounds))):
            if start == skipped:
                continue
            for number, parts in chunks.whole(content[start:stop], start):
                known[number] = chunk_digest(*parts)
        expected = [
            xxhash.xxh3_128_hexdigest(content[at : at + CHUNK]) for at in range(0, total, CHUNK)
        ]
        assert all(expected[number] == digest for number, digest in known.items())
        is_large = all(after - at >= CHUNK for at, after in itertools.pairwise(bounds[:-1]))
        if is_large and skipped is None:
            assert len(known) == len(expected)
        assert list(manifest.describe(array, known).checksums) == expected
    finally:
        manifest.CHUNK_BYTES = before

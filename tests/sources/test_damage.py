"""Whatever the bytes of a source are, it is a graph or one sentence: never anything else."""

import gzip
import random
import re
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from tests.sources.corpus import CORPUS, read

from scr.errors import SCRError

pytestmark = pytest.mark.filterwarnings("ignore")

CASES = 25
"""Of each format; more of them: `make stress`."""
_SECONDS = 20
_NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
_TEXTS = (b"-1", b"9" * 19, b"9" * 40, b"1e400", b"nan", b"", b"0.5", b'"', b"\0", b"x", b"\xff")


@contextmanager
def no_hang():
    def stop(*_):
        raise AssertionError("a reader does not come to an end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def damaged(content, other, rng):
    """Bytes with a few flipped, cut, doubled, swapped or borrowed, or with other numbers."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not data:
            break
        place, length = rng.randrange(len(data)), rng.randrange(1, min(64, len(data)) + 1)
        piece = bytes(data[place : place + length])
        kind = rng.randrange(9)
        if kind == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del data[place:]
        elif kind == 3:
            del data[place : place + length]
        elif kind == 4:
            data[place:place] = piece
        elif kind == 5:
            second = rng.randrange(len(data))
            data[place : place + length] = data[second : second + length]
            data[second : second + len(piece)] = piece
        elif kind == 6:
            width = rng.choice((4, 8))
            data[place : place + width] = rng.choice(_NUMBERS).to_bytes(8, "little")[:width]
        elif kind == 7 and other:
            begin = rng.randrange(len(other))
            data[place : place + length] = other[begin : begin + length]
        elif digits := [match.start() for match in re.finditer(rb"\d", data)]:
            chosen = rng.choice(digits)
            data[chosen : chosen + 1] = rng.choice(_TEXTS)
    return bytes(data)


def damage(folder, rng):
    """Damage one file of a folder, that of a `.gz` inside as well; returns how to repair it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file, other = rng.choice(files), rng.choice(files).read_bytes()
    content = file.read_bytes()
    if file.suffix == ".gz" and rng.random() < 0.7:
        changed = gzip.compress(damaged(gzip.decompress(content), other, rng))
    else:
        changed = damaged(content, other, rng)
    file.write_bytes(changed)
    return lambda: file.write_bytes(content)


@pytest.mark.parametrize("name", CORPUS)
def test_damaged_sources_are_graphs_or_one_sentence(tmp_path, name):
    path = CORPUS[name](tmp_path)
    for case in range(CASES):
        rng = random.Random(f"{name}-{case}")
        repair = damage(tmp_path, rng)
        try:
            with no_hang():
                graph = read(name, path)
        except SCRError:
            pass
        else:
            assert graph.indptr[0] == 0
            assert graph.indptr[-1] == len(graph.indices)
            assert (graph.indptr[1:] >= graph.indptr[:-1]).all()
            assert np.logical_and(graph.indices >= 0, graph.indices < graph.num_nodes).all()
        finally:
            repair()

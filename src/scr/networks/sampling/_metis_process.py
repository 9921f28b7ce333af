"""What runs in a process of its own: METIS may abort, and takes nobody with it there.

    python -P metis_process.py FOLDER PARTS SEED

reads ``indptr.npy`` and ``indices.npy`` from the folder and writes ``membership.npy``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

MISSING = 3
"""The exit code that says that pymetis cannot be imported."""


def main(folder: Path, parts: int, seed: int) -> int:
    """Partition a stored graph; returns the exit code."""
    try:
        import pymetis
    except ImportError:
        return MISSING
    # int32 is the index type of METIS as pymetis builds it.
    indptr, indices = (
        np.load(folder / f"{name}.npy", allow_pickle=False).astype(np.int32)
        for name in ("indptr", "indices")
    )
    if hasattr(pymetis, "CSRAdjacency"):  # since 2025.2, when the other way became deprecated
        rows = {"adjacency": pymetis.CSRAdjacency(indptr, indices)}
    else:
        rows = {"xadj": indptr, "adjncy": indices}
    found = pymetis.part_graph(parts, **rows, options=pymetis.Options(seed=seed))
    np.save(folder / "membership.npy", np.asarray(found[1], np.int32))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))

"""Write a graph in the layout of OGB's node-property archives, such as ogbn-products.

    raw/edge.csv.gz  node-feat.csv.gz  node-label.csv.gz  num-node-list.csv.gz  num-edge-list.csv.gz
    split/NAME/{train,valid,test}.csv.gz
    mapping/labelidx2productcategory.csv.gz
    RELEASE_v1.txt

Edges and features are streamed, so that a graph need not fit memory. With it, whatever reads OGB's
files can be tried without a download: `scr synth --ogb DIR` writes a synthetic graph this way.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from scr.storage import FILE, Contents, atomic_folder, check_replaced
from scr.synth._model import SynthConfig, SynthEdges, draw_nodes, feature_blocks

_CATEGORIES = "labelidx2productcategory.csv.gz"
_TABLES: Contents = {"*.csv.gz": FILE}
_FILES: Contents = {
    "raw": _TABLES, "split": {"*": _TABLES}, "mapping": _TABLES, "RELEASE_v1.txt": FILE,
}  # fmt: skip
_GZIP_LEVEL = 3
"""Random numbers hardly compress; a higher level only takes longer."""


def write_ogb(
    folder: str | Path,
    *,
    edges: Iterable[NDArray[Any]],
    labels: NDArray[Any],
    splits: Mapping[str, NDArray[Any]],
    features: Iterable[NDArray[Any]] = (),
    class_names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a graph as OGB does, whole or not at all, to a folder that does not exist or is empty.

    With `overwrite`, it may hold such files, which are replaced.
    Edges are blocks of shape (2, edges), each undirected edge once; features are blocks of rows of
    one width, without which there is no file of them. Labels are -1 where unknown.
    """
    check = _check_files if overwrite else None
    with atomic_folder(Path(folder), check=check) as partial:
        raw, split = partial / "raw", partial / "split" / "sales_ranking"
        for each in (raw, split, partial / "mapping"):
            each.mkdir(parents=True)
        count = _write_rows(raw / "edge.csv.gz", (np.ascontiguousarray(part.T) for part in edges))
        _write_column(raw / "num-edge-list.csv.gz", np.array([count]))
        _write_column(raw / "num-node-list.csv.gz", np.array([len(labels)]))
        _write_rows(raw / "node-feat.csv.gz", features)
        # A missing label is NaN, as in ogbn-papers100M; whole numbers cannot say so.
        known = labels if (labels >= 0).all() else np.where(labels < 0, np.nan, labels)
        _write_column(raw / "node-label.csv.gz", known)
        for part in ("train", "valid", "test"):
            _write_column(split / f"{part}.csv.gz", splits[part])
        if class_names is not None:
            rows = [("label idx", "product category"), *enumerate(class_names)]
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerows(rows)
            with _gzip_file(partial / "mapping" / _CATEGORIES) as file:
                file.write(text.getvalue().encode())
        (partial / "RELEASE_v1.txt").write_text("", encoding="utf-8")
    return Path(folder)


def write_synth_ogb(config: SynthConfig, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write a synthetic graph in OGB's layout, edges as drawn: with repeats and loops."""
    nodes = draw_nodes(config)
    return write_ogb(
        folder,
        edges=SynthEdges(config).chunks(),
        labels=nodes.labels,
        splits=nodes.splits,
        features=feature_blocks(config, nodes.classes),
        class_names=config.class_names(),
        overwrite=overwrite,
    )


def _check_files(folder: Path) -> None:
    check_replaced(folder, _FILES, known_by="raw")


def _write_column(path: Path, values: NDArray[Any]) -> None:
    if _write_rows(path, [np.asarray(values)[:, None]] if len(values) else []) == 0:
        path.write_bytes(gzip.compress(b"", mtime=0))


def _write_rows(path: Path, blocks: Iterable[NDArray[Any]]) -> int:
    """Write blocks of rows one after another; nothing is written where there are no blocks."""
    rows = 0
    with ExitStack() as stack:
        writer: Any = None
        for block in blocks:
            block = block.astype(np.float32) if block.dtype == np.float16 else block
            names = [str(number) for number in range(block.shape[1])]
            arrays = [pa.array(np.ascontiguousarray(column)) for column in block.T]
            batch = pa.record_batch(arrays, names=names)
            if writer is None:
                sink = stack.enter_context(_gzip_file(path))
                options = pyarrow.csv.WriteOptions(include_header=False)
                writer = pyarrow.csv.CSVWriter(sink, batch.schema, write_options=options)
                stack.enter_context(writer)
            writer.write_batch(batch)
            rows += len(block)
    return rows


def _gzip_file(path: Path) -> gzip.GzipFile:
    """A compressed file to write, without the time of writing: equal graphs are equal bytes."""
    return gzip.GzipFile(path, "wb", compresslevel=_GZIP_LEVEL, mtime=0)

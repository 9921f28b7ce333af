"""Folders with the layout of OGB's four node-property data sets, from small random arrays.

Written by pandas and NumPy in the way OGB's own files were (no header, no index, gzip), and so not
by the code under test. Each writer returns the folder and the arrays that are in it.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

MAG_COUNTS = {"author": 7, "field_of_study": 4, "institution": 3, "paper": 12}
MAG_RELATIONS = {
    ("author", "affiliated_with", "institution"): 5,
    ("author", "writes", "paper"): 9,
    ("paper", "cites", "paper"): 20,
    ("paper", "has_topic", "field_of_study"): 8,
}


def random_arrays(nodes=30, edges=60, features=5, classes=3, seed=0, unlabeled=0):
    """Arrays of a graph; the first nodes train, so that every class has a training label."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(nodes) % classes).astype(np.float64)
    parts = np.arange(nodes - unlabeled)
    if unlabeled:
        labels[-unlabeled:] = np.nan
    cuts = [nodes // 3, nodes // 3 + nodes // 5]
    train, valid, test = (part for part in np.split(parts, cuts))
    return SimpleNamespace(
        nodes=nodes,
        classes=classes,
        edges=generator.integers(0, nodes, (2, edges)),
        features=generator.standard_normal((nodes, features)).astype(np.float32),
        labels=labels,
        years=generator.integers(1990, 2020, nodes),
        train=train,
        valid=valid,
        test=test,
    )


def write_csv(path: Path, values, header=None) -> None:
    """One gzipped CSV as OGB has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(np.asarray(values))
    frame.to_csv(path, header=header or False, index=False, compression="gzip")


def write_text(path: Path, text: str) -> None:
    """A gzipped text file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def write_homogeneous(folder: Path, arrays, *, split: str, categories: str, years: bool) -> Path:
    """The layout of ogbn-products and ogbn-arxiv."""
    raw = folder / "raw"
    write_csv(raw / "edge.csv.gz", arrays.edges.T)
    write_csv(raw / "node-feat.csv.gz", arrays.features)
    labels = arrays.labels
    write_csv(
        raw / "node-label.csv.gz", labels if np.isnan(labels).any() else labels.astype(np.int64)
    )
    write_csv(raw / "num-node-list.csv.gz", [arrays.nodes])
    write_csv(raw / "num-edge-list.csv.gz", [arrays.edges.shape[1]])
    if years:
        write_csv(raw / "node_year.csv.gz", arrays.years)
    write_split(folder / "split" / split, arrays)
    write_names(folder, categories, arrays.classes)
    (folder / "RELEASE_v1.txt").touch()
    return folder


def write_split(folder: Path, arrays) -> None:
    """Three files of node numbers."""
    for part in ("train", "valid", "test"):
        write_csv(folder / f"{part}.csv.gz", getattr(arrays, part))


def write_names(folder: Path, file: str, classes: int) -> None:
    """The mapping of class numbers to names, which does have a header."""
    rows = "".join(f'{number},"name, {number}"\n' for number in range(classes))
    write_text(folder / "mapping" / file, "label idx,name of it\n" + rows)
    (folder / "mapping" / "README.md").write_text("What the files mean.")


def write_products(folder: Path, arrays) -> Path:
    """The layout of ogbn-products."""
    return write_homogeneous(
        folder,
        arrays,
        split="sales_ranking",
        categories="labelidx2productcategory.csv.gz",
        years=False,
    )


def write_arxiv(folder: Path, arrays) -> Path:
    """The layout of ogbn-arxiv; the misspelling is OGB's."""
    return write_homogeneous(
        folder, arrays, split="time", categories="labelidx2arxivcategeory.csv.gz", years=True
    )


def write_papers(folder: Path, arrays, *, compressed: bool = True) -> Path:
    """The layout of ogbn-papers100M: arrays in two .npz files."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    save = np.savez_compressed if compressed else np.savez
    save(
        raw / "data.npz",
        edge_index=arrays.edges.astype(np.int64),
        node_feat=arrays.features,
        node_year=arrays.years[:, None],
        num_nodes_list=np.array([arrays.nodes]),
        num_edges_list=np.array([arrays.edges.shape[1]]),
    )
    save(raw / "node-label.npz", node_label=arrays.labels.astype(np.float32)[:, None])
    write_split(folder / "split" / "time", arrays)
    return folder


def write_mag(folder: Path, seed: int = 0) -> tuple[Path, SimpleNamespace]:
    """The layout of ogbn-mag: four types of nodes, four relations, labels of papers."""
    generator = np.random.default_rng(seed)
    raw = folder / "raw"
    papers = random_arrays(nodes=MAG_COUNTS["paper"], edges=0, features=4, seed=seed)
    relations = {}
    for (source, name, target), count in MAG_RELATIONS.items():
        ends = (MAG_COUNTS[source], MAG_COUNTS[target])
        edges = np.stack([generator.integers(0, end, count) for end in ends])
        relations[source, name, target] = edges
        where = raw / "relations" / f"{source}___{name}___{target}"
        write_csv(where / "edge.csv.gz", edges.T)
        write_csv(where / "num-edge-list.csv.gz", [count])
        write_csv(where / "edge_reltype.csv.gz", np.zeros(count, np.int64))
    types = list(MAG_COUNTS)
    only_papers = [[name == "paper" for name in types]]
    write_csv(raw / "num-node-dict.csv.gz", [list(MAG_COUNTS.values())], header=types)
    write_csv(raw / "nodetype-has-feat.csv.gz", only_papers, header=types)
    write_csv(raw / "nodetype-has-label.csv.gz", only_papers, header=types)
    write_csv(raw / "triplet-type-list.csv.gz", list(MAG_RELATIONS))
    write_csv(raw / "node-feat" / "paper" / "node-feat.csv.gz", papers.features)
    write_csv(raw / "node-feat" / "paper" / "node_year.csv.gz", papers.years)
    write_csv(raw / "node-label" / "paper" / "node-label.csv.gz", papers.labels.astype(np.int64))
    write_csv(folder / "split" / "time" / "nodetype-has-split.csv.gz", only_papers, header=types)
    write_split(folder / "split" / "time" / "paper", papers)
    write_names(folder, "labelidx2venuename.csv.gz", papers.classes)
    (folder / "RELEASE_v2.txt").touch()
    return folder, SimpleNamespace(**vars(papers) | {"relations": relations})

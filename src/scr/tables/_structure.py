"""Features of nodes that nothing is known of but their edges: degree, core, triangles, a spectrum.

The spectrum is the leading singular directions of the normalized adjacency D^-1/2 A D^-1/2: nodes
of one densely linked region have similar rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import available_bytes, readable_bytes
from scr.features import singular_directions
from scr.graph import Graph

EMBEDDING_COLUMNS = 64
TRIANGLE_WORK = 1e8
"""Pairs of edges that meet, up to which triangles are counted: a few seconds."""
_EMBEDDING_BYTES = 4 * 4 * (EMBEDDING_COLUMNS + 16)
"""Per node while the embedding is made: four blocks of float32."""
_MEMORY_SHARE = 0.5


def structural_features(graph: Graph) -> NDArray[np.float32]:
    """Features made from the edges alone. Shape (nodes, up to 67)."""
    return describe_structure(graph)[0]


def describe_structure(graph: Graph) -> tuple[NDArray[np.float32], str]:
    """Structural features, and a sentence on what they are and what was left out."""
    links = links_of(graph)
    degrees = np.diff(links.indptr)
    columns, names = [np.log1p(degrees)], ["degree"]
    columns.append(np.log1p(core_numbers(links)))
    names.append("core number")
    left_out = []
    if float(np.square(degrees.astype(np.float64)).sum()) <= TRIANGLE_WORK:
        columns.append(clustering(links))
        names.append("clustering coefficient")
    else:
        left_out.append("triangles, which are too many to count")
    matrix = _standardized(np.column_stack(columns))
    width = min(EMBEDDING_COLUMNS, graph.num_nodes - 1)
    needed = graph.num_nodes * _EMBEDDING_BYTES
    if width < 2 or links.nnz == 0:
        left_out.append("the embedding, for which there are too few edges")
    elif needed > _MEMORY_SHARE * available_bytes():
        left_out.append(f"the embedding, which would need {readable_bytes(needed)}")
    else:
        matrix = np.concatenate([matrix, spectral_embedding(links, width)], axis=1)
        names.append(f"an embedding of {width} columns")
    sentence = f"no columns describe the nodes: features are made of the edges ({', '.join(names)})"
    if left_out:
        sentence += f", without {' and '.join(left_out)}"
    return np.ascontiguousarray(matrix, np.float32), sentence


def links_of(graph: Graph) -> sp.csr_array:
    """Which nodes are linked, in both directions, without weights and self-loops."""
    adjacency = graph.adjacency()
    if graph.directed:
        adjacency = sp.csr_array(adjacency + adjacency.T)
    ones = np.ones(len(adjacency.indices), np.float32)
    links = sp.csr_array((ones, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    links = sp.csr_array(links - sp.diags_array(links.diagonal()))
    links.eliminate_zeros()
    return links


def core_numbers(links: sp.csr_array) -> NDArray[np.int64]:
    """The largest k for which a node is in a part of the graph where all have k neighbors or more.

    Nodes of the least degree are peeled off, round after round.
    """
    degrees = np.diff(links.indptr).astype(np.int64)
    cores = np.zeros(len(degrees), np.int64)
    left = np.ones(len(degrees), bool)
    k = 0
    while left.any():
        k = max(k, int(degrees[left].min()))
        peeled = np.flatnonzero(left & (degrees <= k))
        while len(peeled):
            cores[peeled] = k
            left[peeled] = False
            neighbors = links[peeled].indices
            degrees -= np.bincount(neighbors, minlength=len(degrees))
            is_touched = np.zeros(len(degrees), bool)
            is_touched[neighbors] = True
            peeled = np.flatnonzero(is_touched & left & (degrees <= k))
    return cores


def clustering(links: sp.csr_array) -> NDArray[np.float64]:
    """The share of pairs of a node's neighbors that are linked; 0 with fewer than two."""
    degrees = np.diff(links.indptr).astype(np.float64)
    closed = np.asarray((links @ links).multiply(links).sum(axis=1)).ravel()
    pairs = degrees * (degrees - 1)
    shares = np.zeros(len(degrees))
    np.divide(closed, pairs, out=shares, where=pairs > 0)
    return shares


def spectral_embedding(links: sp.csr_array, width: int) -> NDArray[np.float32]:
    """Leading singular directions of the normalized adjacency, with values about 1."""
    degrees = np.diff(links.indptr).astype(np.float32)
    factors = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    scaled = sp.diags_array(factors)
    normalized = sp.csr_array(scaled @ links @ scaled, dtype=np.float32)
    directions = singular_directions(normalized, width)
    return np.asarray(directions * np.sqrt(np.float32(len(degrees))))


def _standardized(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = matrix.std(axis=0)
    return np.asarray((matrix - matrix.mean(axis=0)) / np.where(spread > 0, spread, 1))

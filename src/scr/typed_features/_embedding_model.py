"""Three ways to say how well a triple (head, relation, tail) fits, by torch_geometric's models.

    TransE    -||h + r - t||_2                 Bordes et al. 2013, NeurIPS
    DistMult  sum_d h_d r_d t_d                Yang et al. 2015, arXiv:1412.6575
    ComplEx   Re(sum_d h_d r_d conj(t_d))      Trouillon et al. 2016, arXiv:1606.06357

The first two want a true triple to score one more than a corrupted one (a margin), the third wants
true ones above and corrupted ones below zero (a logistic loss), as in the papers.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from scr.errors import ConfigError


class EmbeddingModel:
    """One of the models, with its loss and its rows of nodes."""

    def __init__(self, name: str, nodes: int, relations: int, width: int, seed: int) -> None:
        """Draw the first embeddings; the state of torch's own generator does not change.

        `name` is `transe`, `distmult` or `complex`; `width` are the columns of a node's embedding,
        real and imaginary parts of ComplEx together.
        """
        kge = _models(name)
        self.name, self.width = name, width
        # Of an odd width, the last imaginary part is trained and left out.
        columns = (width + 1) // 2 if name == "complex" else width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # The papers' code takes 1 or 2; lengths of rows are Euclidean everywhere else here.
            norm = {"p_norm": 2.0} if name == "transe" else {}
            kinds = {"transe": kge.TransE, "distmult": kge.DistMult, "complex": kge.ComplEx}
            self.module = kinds[name](nodes, relations, columns, sparse=True, **norm)

    def scores(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """How well triples fit, the more the better; all of one shape."""
        flat = self.module(heads.reshape(-1), relations.reshape(-1), tails.reshape(-1))
        return torch.as_tensor(flat).reshape(heads.shape)

    def loss(self, true: Tensor, corrupted: Tensor) -> Tensor:
        """Mean loss of scores of shapes (triples,) and (triples, corrupted ones of each)."""
        if self.name == "complex":
            # Equal weight of true and corrupted triples, however many there are of each.
            below, above = functional.softplus(-true).mean(), functional.softplus(corrupted).mean()
            return (below + above) / 2
        return torch.relu(self.module.margin - true[:, None] + corrupted).mean()

    @torch.no_grad()
    def node_rows(self) -> Tensor:
        """What a node's features are. Shape (nodes, width)."""
        rows: Tensor = self.module.node_emb.weight
        if self.name == "transe":
            # The model reads directions only.
            return functional.normalize(rows, dim=-1)
        if self.name == "complex":
            return torch.cat([rows, self.module.node_emb_im.weight], dim=1)[:, : self.width]
        return rows.clone()


def _models(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            # It warns of compiled extras that are not there; they are not used here.
            warnings.simplefilter("ignore")
            from torch_geometric.nn import kge
    except ImportError:
        raise ConfigError(
            "data.missing", name, "`average` or `random`, since torch_geometric is not installed",
            hint="install it with `pip install torch-geometric`",
        ) from None  # fmt: skip
    return kge

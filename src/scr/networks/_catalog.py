"""Every encoder by its name: those that read hops (`scr.encoders`) and those that read the graph.

A new encoder is a file in one of the two packages and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scr.config import build, did_you_mean
from scr.encoders import GAMLP, GAMLPJK, MLP, NARS, SAGN, SGC, SIGN, SSGC, Encoder, ProblemShape
from scr.errors import ConfigError
from scr.networks._gat import GAT
from scr.networks._gcn import GCN
from scr.networks._graphsage import ClusterGCN, GraphSAGE, GraphSAINT
from scr.networks._own_module import OWN, OwnModule
from scr.networks._rgcn import RGCN

_HOPS_APART: tuple[type[Encoder], ...] = (SIGN, SAGN, GAMLP, GAMLPJK)
_FIXED_MIXTURES: tuple[type[Encoder], ...] = (MLP, SGC, SSGC)
_OVER_SUBSETS = tuple(NARS.over(inner) for inner in _HOPS_APART)
COUPLED: tuple[type[Encoder], ...] = (GCN, GraphSAGE, GAT, ClusterGCN, GraphSAINT, RGCN)
"""Encoders that read the graph in every step."""
ENCODERS: dict[str, type[Encoder]] = {
    encoder.name: encoder for encoder in (*_FIXED_MIXTURES, *_HOPS_APART, *_OVER_SUBSETS, *COUPLED)
}


def encoder_class(name: str) -> type[Encoder]:
    """The encoder of a name; an unknown name is an error that suggests the closest one."""
    known = {**ENCODERS, **OWN}
    if isinstance(name, str) and name in known:  # a name from a file may be anything
        return known[name]
    hint = did_you_mean(name, ENCODERS)
    raise ConfigError("encoder.name", name, f"one of {', '.join(ENCODERS)}", hint=hint)


def make_encoder(
    name: str, settings: Mapping[str, Any], shape: ProblemShape, own: OwnModule | None = None
) -> Encoder:
    """Build an encoder with fresh weights, drawn from torch's default generator.

    Args:
        name: One of `ENCODERS`.
        settings: Its own settings by name; those left out have the paper's values.
        shape: The sizes of the data.
        own: The user's own module, where the name says that there is one.
    """
    if name in OWN:
        if own is None:
            raise ConfigError(
                "encoder.name", name, f"one of {', '.join(ENCODERS)}, or a torch module",
                hint="give it in Python: `scr.NodeClassifier(encoder=my_module)`",
            )  # fmt: skip
        return OWN[name](shape, own.build(shape))
    chosen = encoder_class(name)
    config = build(chosen.config_class, settings, section="encoder")
    return chosen(config, shape)

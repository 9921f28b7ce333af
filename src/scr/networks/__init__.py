"""Encoders that read the graph in every step, and the catalog of all encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.networks._base import Embedded as Embedded
    from scr.networks._base import GraphBatch as GraphBatch
    from scr.networks._base import GraphEncoder as GraphEncoder
    from scr.networks._base import GraphEncoderConfig as GraphEncoderConfig
    from scr.networks._base import LayeredEncoder as LayeredEncoder
    from scr.networks._catalog import COUPLED as COUPLED
    from scr.networks._catalog import ENCODERS as ENCODERS
    from scr.networks._catalog import encoder_class as encoder_class
    from scr.networks._catalog import make_encoder as make_encoder
    from scr.networks._graphsage import ClusterGCNConfig as ClusterGCNConfig
    from scr.networks._graphsage import GraphSAINTConfig as GraphSAINTConfig
    from scr.networks._own_module import OWN as OWN
    from scr.networks._own_module import OwnGraphEncoder as OwnGraphEncoder
    from scr.networks._own_module import OwnModule as OwnModule
    from scr.networks._own_module import separate_module as separate_module
    from scr.networks._own_module import try_out as try_out
    from scr.networks._own_module import views_are_equal as views_are_equal
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

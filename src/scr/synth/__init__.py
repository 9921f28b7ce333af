"""Synthetic graphs of any size, streamed to disk; and graphs with communities for experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.synth._communities import CommunityConfig as CommunityConfig
    from scr.synth._communities import Links as Links
    from scr.synth._communities import community_graph as community_graph
    from scr.synth._model import SynthConfig as SynthConfig
    from scr.synth._ogb_layout import write_synth_ogb as write_synth_ogb
    from scr.synth._writer import write_synth_shards as write_synth_shards
    from scr.synth._writer import write_synth_store as write_synth_store
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

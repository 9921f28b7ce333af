"""Propagation of graphs that are larger than memory, from disk to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.propagation.disk._copies import copy_folder as copy_folder
    from scr.propagation.disk._copies import fetched_store as fetched_store
    from scr.propagation.disk._copies import is_url as is_url
    from scr.propagation.disk._disk_plan import DiskPlan as DiskPlan
    from scr.propagation.disk._plan import DiskRequest as DiskRequest
    from scr.propagation.disk._run import propagate_to_disk as propagate_to_disk
    from scr.propagation.disk._sending import store_copy as store_copy
    from scr.propagation.disk._team import Team as Team
    from scr.propagation.disk._team import form_team as form_team
    from scr.propagation.disk._team import opened_team as opened_team
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

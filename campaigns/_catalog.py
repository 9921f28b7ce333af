"""Every campaign, by name; imported when it is asked for."""

from __future__ import annotations

import importlib

from campaigns._campaign import Campaign

CAMPAIGNS = {
    "kills": "campaigns.kills:Kills",
    "full-disk": "campaigns.full_disk:FullDisk",
    "folders": "campaigns.folders:Folders",
    "processes": "campaigns.processes:Processes",
    "memory-limits": "campaigns.memory_limits:MemoryLimits",
    "budgets": "campaigns.budgets:Budgets",
    "damage": "campaigns.damage:Damage",
    "requests": "campaigns.damage_service:Requests",
    "fuzz": "campaigns.damage_fuzz:Fuzz",
    "selection": "campaigns.selection:Selection",
    "example": "campaigns.example:Example",
}
"""Where each campaign is, in the order of a whole run."""


ONLY_BY_NAME = frozenset({"selection", "example"})
"""Those that a run of all campaigns leaves out."""


def find(name: str) -> Campaign:
    """The campaign of a name."""
    if name not in CAMPAIGNS:
        raise SystemExit(f"no campaign {name!r}; there are {', '.join(CAMPAIGNS)}")
    module, _, member = CAMPAIGNS[name].partition(":")
    found: Campaign = getattr(importlib.import_module(module), member)()
    return found

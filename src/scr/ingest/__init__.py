"""From a source to a store, in memory or within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.ingest._ingest import ingest as ingest
    from scr.ingest._ingest import plan_of as plan_of
    from scr.ingest._plan import IngestPlan as IngestPlan
    from scr.ingest._row_buckets import RowRules as RowRules
    from scr.ingest._row_writer import WrittenRows as WrittenRows
    from scr.ingest._row_writer import write_rows as write_rows
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

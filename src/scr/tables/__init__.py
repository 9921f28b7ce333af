"""A graph from two tables as they are; columns of any kind become features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.tables._graph import TableGraph as TableGraph
    from scr.tables._graph import read_table_graph as read_table_graph
    from scr.tables._new_nodes import NewTables as NewTables
    from scr.tables._new_nodes import read_new_nodes as read_new_nodes
    from scr.tables._options import KINDS as KINDS
    from scr.tables._options import Table as Table
    from scr.tables._options import TableOptions as TableOptions
    from scr.tables._preparation import Preparation as Preparation
    from scr.tables._read import read_any_table as read_any_table
    from scr.tables._structure import structural_features as structural_features
    from scr.tables.columns import FittedColumn as FittedColumn
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

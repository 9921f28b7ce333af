"""What a graph is, in memory and on disk: edges, types and relations, labels, splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.graph._arrays import as_features as as_features
    from scr.graph._arrays import as_numpy as as_numpy
    from scr.graph._arrays import read_nodes as read_nodes
    from scr.graph._edge_selection import edge_bytes as edge_bytes
    from scr.graph._edge_selection import edges_by_code as edges_by_code
    from scr.graph._edge_selection import relation_codes as relation_codes
    from scr.graph._edge_selection import select_edges as select_edges
    from scr.graph._edge_selection import selection_bytes as selection_bytes
    from scr.graph._edges import check_node_count as check_node_count
    from scr.graph._edges import edge_steps as edge_steps
    from scr.graph._edges import outside_the_graph as outside_the_graph
    from scr.graph._graph import SPLITS as SPLITS
    from scr.graph._graph import Graph as Graph
    from scr.graph._graph import check_graph as check_graph
    from scr.graph._ids import converted_ids as converted_ids
    from scr.graph._ids import numbers_of as numbers_of
    from scr.graph._induced import induced as induced
    from scr.graph._labels import UNKNOWN as UNKNOWN
    from scr.graph._labels import known_labels as known_labels
    from scr.graph._new_nodes import NewNodes as NewNodes
    from scr.graph._new_nodes import enlarged as enlarged
    from scr.graph._new_nodes import joined_rows as joined_rows
    from scr.graph._open_store import open_store as open_store
    from scr.graph._open_store import verify_store as verify_store
    from scr.graph._part import Degrees as Degrees
    from scr.graph._part import GraphPart as GraphPart
    from scr.graph._relations import Relation as Relation
    from scr.graph._relations import edge_code as edge_code
    from scr.graph._relations import find_relation as find_relation
    from scr.graph._splits import Split as Split
    from scr.graph._splits import apply_split as apply_split
    from scr.graph._splits import per_class_split as per_class_split
    from scr.graph._splits import random_split as random_split
    from scr.graph._splits import read_splits as read_splits
    from scr.graph._store import KIND as KIND
    from scr.graph._store import SCHEMA as SCHEMA
    from scr.graph._store import store_arrays as store_arrays
    from scr.graph._store import store_metadata as store_metadata
    from scr.graph._store import stored_feature_type as stored_feature_type
    from scr.graph._store import storing_steps as storing_steps
    from scr.graph._store import write_store as write_store
    from scr.graph._validation import check_features as check_features
    from scr.graph._validation import check_finite as check_finite
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

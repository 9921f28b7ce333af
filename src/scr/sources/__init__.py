"""Every way to get a graph: readers of public formats, names, downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.sources._digits import digits as digits
    from scr.sources._download import dataset_of as dataset_of
    from scr.sources._download import download as download
    from scr.sources._edge_source import EdgeSource as EdgeSource
    from scr.sources._edge_source import as_edge_source as as_edge_source
    from scr.sources._load import draw_split as draw_split
    from scr.sources._load import find_source as find_source
    from scr.sources._load import is_finished as is_finished
    from scr.sources._load import load_graph as load_graph
    from scr.sources._load import make_graph as make_graph
    from scr.sources._load import read_raw as read_raw
    from scr.sources._load import read_source as read_source
    from scr.sources._load import reading_step as reading_step
    from scr.sources._ogb_datasets import DATA_VARIABLE as DATA_VARIABLE
    from scr.sources._ogb_datasets import OGB_DATASETS as OGB_DATASETS
    from scr.sources._ogb_datasets import data_folder as data_folder
    from scr.sources._options import IngestOptions as IngestOptions
    from scr.sources._table_sizes import check_tables_fit as check_tables_fit
    from scr.sources._table_sizes import tables_of_source as tables_of_source
    from scr.sources.readers._columns import class_column as class_column
    from scr.sources.readers._columns import plain_integers as plain_integers
    from scr.sources.readers._columns import split_column as split_column
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

"""Features of all nodes beside their store, found again by what they were made from.

The name of the folder is a hash of edges, features and settings, as with hops. What is found is
verified before it is used (`scr.storage`); what is damaged is made again, with a warning.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scr.errors import StoreError
from scr.graph import Graph
from scr.storage import Manifest, discard_partial_of, read_manifest, verify_once

FOLDER = "features"


def cache_path(graph: Graph, name: str, parts: Mapping[str, Any]) -> Path | None:
    """Where something belongs that is made from a stored graph; none where nothing can be stored.

    Its name is that given and a hash of `parts`: all that decides its numbers, in plain values.
    """
    if graph.path is None or not os.access(graph.path, os.W_OK):
        return None
    content = json.dumps(parts, sort_keys=True).encode()
    return graph.path / FOLDER / (name + hashlib.blake2b(content, digest_size=10).hexdigest())


def open_whole(path: Path, kind: str, schema: int) -> Manifest | None:
    """What is at a path if every byte is as it was written; otherwise none, and nothing is left."""
    if not path.is_dir():
        return None
    try:
        manifest = read_manifest(path, kind, schema=schema)
        verify_once(manifest)
    except StoreError as error:
        shutil.rmtree(path, ignore_errors=True)
        warnings.warn(f"{error.message}; it is made again", stacklevel=2)
        return None
    discard_partial_of(path)  # a kill came after the folder had its name
    return manifest

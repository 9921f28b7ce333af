"""Predictions of a run over HTTP: known nodes by their ids, new nodes with their edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.serving._app import make_app as make_app
    from scr.serving._service import Limits as Limits
    from scr.serving._service import Service as Service
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

"""Where work runs: in processes of this machine, or on a Ray cluster.

Steps that consist of independent items (blocks of columns, runs, shards of predictions) hand them
to an `Engine`, and do not know where they run. Workers that train one model together form a group
(`Engine.together`). No other package imports Ray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.engines._base import Engine as Engine
    from scr.engines._base import Link as Link
    from scr.engines._base import Needs as Needs
    from scr.engines._base import Start as Start
    from scr.engines._base import Together as Together
    from scr.engines._local import LocalEngine as LocalEngine
    from scr.engines._open import ENGINES as ENGINES
    from scr.engines._open import EngineName as EngineName
    from scr.engines._open import open_engine as open_engine
    from scr.engines._open import opened as opened
    from scr.engines._threads import use_one_thread as use_one_thread
    from scr.engines._threads import use_threads as use_threads
else:
    __all__, __getattr__, __dir__ = front_door(__name__)

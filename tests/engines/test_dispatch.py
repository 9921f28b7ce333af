"""Items are handed to workers as these become free, whatever else uses the same machines."""

from __future__ import annotations

from scr.engines import Needs
from scr.engines._dispatch import Crew, Worker, dispatch


class Place(Worker):
    """A worker that begins once there is a place for it on a machine with one core."""

    def __init__(self, crew):
        self._crew = crew
        crew.workers.append(self)
        crew.hired += 1

    def is_late(self):
        return self._crew.workers[0] is not self

    def assign(self, item):
        self.item = item

    def result(self):
        return self.item

    def end(self, *, at_once):
        self._crew.workers.remove(self)


class OnePlace(Crew):
    """Workers of which one at a time has a core, as others use the second one."""

    def __init__(self):
        super().__init__(None, None, Needs())
        self.workers = []
        self.waits = self.hired = 0

    def hire(self):
        return Place(self)

    def finished(self, busy, seconds):
        self.waits += 1
        assert self.waits < 50, "nothing is finished any more"
        return [worker for worker in busy if not worker.is_late()]


def test_an_idle_worker_takes_over_from_one_that_waits_for_its_place():
    """The idle one stays: setting another one up would take longer than its item."""
    crew, done = OnePlace(), []

    def items():
        yield from (1, 2)
        while len(done) < 2:
            yield None
        yield from (3, 4)

    for item, _ in dispatch(crew, items(), lambda: 2):
        done.append(item)
    assert sorted(done) == [1, 2, 3, 4]
    assert crew.workers == crew.idle
    assert crew.hired == 3  # the first one, and for each pair of items one that did not begin

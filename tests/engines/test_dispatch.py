"""Items are handed to workers as these become free, whatever else uses the same machines."""

from __future__ import annotations

from scr.engines import Needs
from scr.engines._dispatch import Crew, Worker, dispatch


class Place(Worker):
    """A worker that begins once there is a place for it on a machine with one core."""

    def __init__(self, crew):
        self._crew = crew
        crew.workers.append(self)

    def has_begun(self):
        return self._crew.workers[0] is self

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
        self.waits = 0

    def hire(self):
        return Place(self)

    def finished(self, busy, seconds):
        self.waits += 1
        assert self.waits < 50, "nothing is finished any more"
        return [worker for worker in busy if worker.has_begun()]

    def make_room(self, busy):
        if not all(worker.has_begun() for worker in busy):
            self.dismiss()


def test_an_idle_worker_makes_room_for_one_that_others_wait_for():
    done = []

    def items():
        yield from (1, 2)
        while len(done) < 2:
            yield None
        yield from (3, 4)

    for item, _ in dispatch(OnePlace(), items(), lambda: 2):
        done.append(item)
    assert sorted(done) == [1, 2, 3, 4]

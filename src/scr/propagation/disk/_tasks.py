"""What the workers of a cluster are given, and when: blocks of columns, or ranges of their rows.

A block that is computed whole is one task. Otherwise each of its steps is a stage, of a task for
each range of rows, and begins when the stage before is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scr.propagation._walks import Way
from scr.propagation.disk._assembly import Layout
from scr.propagation.disk._pieces import STATE, Pieces
from scr.propagation.disk._steps import Step
from scr.propagation.disk._worker import BlockTask


class Tasks:
    """Tasks in the order in which they can be begun; None where they wait for others."""

    def __init__(
        self,
        work: Pieces,
        layout: Layout,
        steps: Mapping[int, Sequence[Step]],
        edges: Mapping[Way, int],
    ) -> None:
        """Begin with the missing steps of each block; `edges` are those of each walk."""
        self._work, self._layout, self._edges = work, layout, edges
        self._is_cut = len(layout.cuts) > 1
        self._stages = {
            block: stages(todo) if self._is_cut else [list(todo)] for block, todo in steps.items()
        }
        self._waiting = {block: list[int]() for block in steps}
        """Ranges that can be begun."""
        self._running = dict.fromkeys(steps, 0)
        for block in steps:
            self._begin_stage(block)

    def __iter__(self) -> Iterator[BlockTask | None]:
        while self._stages:
            block = next((each for each in self._stages if self._waiting[each]), None)
            if block is None:
                yield None
                continue
            number, steps = self._waiting[block].pop(0), self._stages[block][0]
            self._running[block] += 1
            loaded = [step.place for step in steps if step.way is None and step.place]
            yield BlockTask(
                block, number if self._is_cut else None, steps, self._stored(block, loaded)
            )

    def outputs(self, task: BlockTask) -> list[str]:
        """Names of the pieces that a task may write."""
        names, number = (self._layout.part, self._layout.state), task.number or 0
        return [name(task.block, step.place, number) for step in task.steps for name in names]

    def finish(self, task: BlockTask) -> int:
        """Note that the pieces of a task are there; returns how many edges it went through."""
        block, number, count = task.block, task.number or 0, len(self._layout.cuts)
        edges = sum(self._edges[step.way] for step in task.steps if step.way is not None)
        self._running[block] -= 1
        if not self._running[block] and not self._waiting[block]:
            place = self._stages[block].pop(0)[-1].place
            self._begin_stage(block)
            # Of the hops before, none is needed any more.
            needed = f"{STATE}{block}-{place}-" if block in self._stages else None
            for name in self._work.names():
                is_here = name.startswith(f"{STATE}{block}-")
                if is_here and (needed is None or not name.startswith(needed)):
                    self._work.remove(name)
        return edges * (number + 1) // count - edges * number // count

    def _begin_stage(self, block: int) -> None:
        """Go to the next stage of which a range is missing."""
        while self._stages[block]:
            self._waiting[block] = self._missing(block, self._stages[block][0][-1])
            if self._waiting[block]:
                return
            self._stages[block].pop(0)
        del self._stages[block]

    def _missing(self, block: int, step: Step) -> list[int]:
        if not self._is_cut:
            return [0]
        has, layout = self._work.has, self._layout
        return [
            number
            for number in range(len(layout.cuts))
            if (step.is_part and not has(layout.part(block, step.place, number)))
            or (step.is_state and not has(layout.state(block, step.place, number)))
        ]

    def _stored(self, block: int, places: Sequence[int]) -> dict[str, list[int]]:
        """Checksums of the pieces that hold all rows of hops of a block."""
        numbers = range(len(self._layout.cuts))
        names = [self._layout.state(block, place, each) for place in places for each in numbers]
        return {name: self._work.finished(name)["crc32"] for name in names}


def stages(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps of a block as stages: each loads what it is computed from, and computes one hop."""
    found, load = list[list[Step]](), Step(0, None, False, False)
    for step in steps:
        if step.way is not None:
            found.append([load, step])
        elif step.is_part:
            found.append([step])
        load = Step(step.place, None, False, False)
    return found

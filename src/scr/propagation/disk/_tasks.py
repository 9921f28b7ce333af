"""What is given to workers, and when: blocks of columns, or ranges of their rows.

A block that is computed whole is one task. Otherwise each of its hops is a stage, of a task for
each range of rows, and begins when the stage before is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scr.propagation._walks import Way
from scr.propagation.disk._layout import Layout
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
            block: self._missing(block, todo) if self._is_cut else [[(None, list(todo))]]
            for block, todo in steps.items()
        }
        """Of each block, the tasks of each stage that were not begun: ranges of rows and steps."""
        self._running = dict.fromkeys(steps, 0)

    def __iter__(self) -> Iterator[BlockTask | None]:
        while self._stages:
            block = next((each for each, (now, *_) in self._stages.items() if now), None)
            if block is None:
                yield None
                continue
            number, steps = self._stages[block][0].pop(0)
            self._running[block] += 1
            yield BlockTask(block, number, steps, self._stored(block, steps))

    @property
    def edges(self) -> int:
        """That all tasks go through which were not begun."""
        every = (task for each in self._stages.values() for stage in each for task in stage)
        return sum(self._edges_of(number, steps) for number, steps in every)

    def outputs(self, task: BlockTask) -> list[str]:
        """Names of the pieces that a task may write."""
        layout, block, number = self._layout, task.block, task.number or 0
        parts = [layout.part(block, step.place, number) for step in task.steps]
        return parts + [layout.state(block, step.place) for step in task.steps if not self._is_cut]

    def finish(self, task: BlockTask) -> int:
        """Note that the pieces of a task are there; returns how many edges it went through."""
        block = task.block
        self._running[block] -= 1
        if not self._running[block] and not self._stages[block][0]:
            self._stages[block].pop(0)
            if not self._stages[block]:
                del self._stages[block]
                for name in self._work.names():
                    if name.startswith(f"{STATE}{block}-"):
                        self._work.remove(name)
        return self._edges_of(task.number, task.steps)

    def _edges_of(self, number: int | None, steps: Sequence[Step]) -> int:
        edges, count = sum(self._edges[step.way] for step in steps if step.way is not None), 1
        if number is None:
            return edges
        count = len(self._layout.cuts)
        return edges * (number + 1) // count - edges * number // count

    def _missing(
        self, block: int, steps: Sequence[Step]
    ) -> list[list[tuple[int | None, list[Step]]]]:
        """The stages of a block of which ranges are missing."""
        found: list[list[tuple[int | None, list[Step]]]] = []
        for each in stages(steps):
            parts = [
                self._layout.part(block, each[-1].place, number)
                for number in range(len(self._layout.cuts))
            ]
            found.append([(n, each) for n, part in enumerate(parts) if not self._work.has(part)])
        return list(filter(None, found))

    def _stored(self, block: int, steps: Sequence[Step]) -> dict[str, list[int]]:
        """Checksums of the pieces that hold the rows of hops that are loaded."""
        loads = [step.place for step in steps if step.way is None and step.place]
        layout, numbers = self._layout, range(len(self._layout.cuts))
        if self._is_cut:
            names = [layout.part(block, place, number) for place in loads for number in numbers]
        else:
            names = [layout.state(block, place) for place in loads]
        return {name: self._work.finished(name)["checksums"] for name in names}


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

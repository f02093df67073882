"""A workflow as a graph: its steps in order, their times, and the critical path, which decides when it ends."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import Attempt, TaskId
from windlass.core.times import Micros
from windlass.stores.workflow_reads import Step, StepGroup


class StepView(Struct, frozen=True, kw_only=True):
    """A step, with its times in order."""

    step: Step
    prerequisites: list[TaskId]
    """All prerequisites in the same workflow."""
    ready: Micros
    """When it could have run: when it was submitted, or its last prerequisite ended."""
    critical: bool | None = None
    """Whether it is on the critical path; None in a summary, where that is unknown."""
    slack: Micros | None = None
    """How much longer it could have taken without delaying the end; None in a summary."""
    failed: Attempt | None = None
    """The latest attempt of a step that is to run again."""

    @property
    def name(self) -> str:
        """Return its key, or its handler and the end of its id."""
        return step_name(self.step)

    @property
    def began(self) -> Micros | None:
        """Return when the running or last attempt began; None for a step that has not run."""
        if self.failed is not None:
            return max(self.failed.started, self.ready)
        state = self.step.state
        if self.step.claimed is None or not (state.final or state is State.LEASED):
            return None
        return max(self.step.claimed, self.ready)

    @property
    def ended(self) -> Micros | None:
        """Return when it ended; None while it is unfinished."""
        return self.step.finished

    def stopped(self, now: Micros) -> Micros:
        """Return when its latest attempt ended; `now` while it runs, or before the first."""
        return self.ended or (now if self.failed is None else self.failed.ended)

    def waited(self, now: Micros) -> Micros:
        """Return how long it was ready before its latest attempt began; 0 while a prerequisite is open."""
        return 0 if self.step.state is State.WAITING else max(0, (self.began or self.ended or now) - self.ready)

    def worked(self, now: Micros) -> Micros:
        """Return how long its latest attempt has run."""
        return 0 if self.began is None else max(0, self.stopped(now) - self.began)


class Links:
    """The positions of other steps for each step, as `links[step]`. Stored in two flat arrays."""

    def __init__(self, steps: int, keys: Sequence[int], values: Sequence[int]) -> None:
        """Group `values` by `keys`. Within a group they keep their order."""
        starts = array("l", bytes((steps + 1) * array("l").itemsize))
        for key in keys:
            starts[key + 1] += 1
        for place in range(steps):
            starts[place + 1] += starts[place]
        ends, places = starts[:], array("l", values)
        for key, value in zip(keys, values, strict=True):
            places[ends[key]] = value
            ends[key] += 1
        self._starts, self._places = starts, places

    def __getitem__(self, place: int) -> array[int]:
        return self._places[self._starts[place] : self._starts[place + 1]]

    def number(self, place: int) -> int:
        """Return how many links a step has."""
        return self._starts[place + 1] - self._starts[place]

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield all links, by step."""
        for place in range(len(self._starts) - 1):
            for index in range(self._starts[place], self._starts[place + 1]):
                yield place, self._places[index]


class Workflow:
    """A workflow with all of its steps, in an order in which prerequisites come first.

    Steps are identified by their position. The steps of a cycle come last; links between them that point forward are
    ignored.
    """

    def __init__(
        self,
        name: str,
        tenant: str,
        steps: Sequence[Step],
        prerequisites: Links,
        failed: Mapping[TaskId, Attempt] | None = None,
    ) -> None:
        self.name, self.tenant = name, tenant
        self.failed = failed or {}
        """The latest attempts of steps that are to run again."""
        self.steps = steps
        self.prerequisites = prerequisites
        self.places = {step.id: place for place, step in enumerate(steps)}
        self.ready = array("q", (self._ready(place) for place in range(len(steps))))
        self.critical = self._critical_path()
        """The critical path: the last step, its last prerequisite, and so on, from the beginning."""
        self.is_critical = bytearray(len(steps))
        for place in self.critical:
            self.is_critical[place] = True
        self._slack: tuple[Micros, array[int]] | None = None

    @property
    def tasks(self) -> int:
        """Return the number of steps."""
        return len(self.steps)

    @property
    def states(self) -> dict[State, int]:
        """Return the number of steps in each state."""
        return count_states(step.state for step in self.steps)

    @property
    def submitted(self) -> Micros:
        """Return when its first step was submitted."""
        return min(step.submitted for step in self.steps)

    @property
    def ended(self) -> Micros | None:
        """Return when its last step ended; None while one is unfinished."""
        ends = [step.finished for step in self.steps if step.finished is not None]
        return max(ends) if len(ends) == len(self.steps) else None

    def view(self, place: int, now: Micros | None = None) -> StepView:
        """Return one step; with its slack if `now` is given."""
        return StepView(
            step=self.steps[place],
            prerequisites=[self.steps[above].id for above in self.prerequisites[place]],
            ready=self.ready[place],
            critical=bool(self.is_critical[place]),
            slack=None if now is None else self.slack(now)[place],
            failed=self.failed.get(self.steps[place].id),
        )

    def slack(self, now: Micros) -> array[int]:
        """Return how much longer each step could have taken without delaying the end; 0 on the critical path.

        The time that a step waited after its prerequisites ended counts as its own. Unfinished steps end now.
        """
        if self._slack is None or self._slack[0] != now:
            self._slack = (now, self._slack_at(now))
        return self._slack[1]

    def _slack_at(self, now: Micros) -> array[int]:
        ends = array("q", (now if step.finished is None else step.finished for step in self.steps))
        end = max(ends, default=now)
        latest = array("q", [end]) * len(ends)
        for place in range(len(ends) - 1, -1, -1):
            limit = latest[place] - max(0, ends[place] - self.ready[place])
            for above in self.prerequisites[place]:
                latest[above] = min(latest[above], limit)
        return array("q", (max(0, latest[place] - ends[place]) for place in range(len(ends))))

    def _ready(self, place: int) -> Micros:
        ready = self.steps[place].submitted
        for above in self.prerequisites[place]:
            ready = max(ready, self.steps[above].finished or 0)
        return ready

    def _critical_path(self) -> list[int]:
        """Walk back from the step that ended last, along the prerequisite that ended last."""
        if not self.steps:
            return []

        def end_order(place: int) -> tuple[bool, int, int]:
            """Order by end: unfinished steps come after finished ones, in the order of their positions."""
            finished = self.steps[place].finished
            return (finished is None, finished or 0, place)

        places = (place for place, step in enumerate(self.steps) if step.state is not State.CANCELLED)
        path = [max(places, key=end_order, default=len(self.steps) - 1)]
        while above := [before for before in self.prerequisites[path[-1]] if before < path[-1]]:
            path.append(max(above, key=end_order))
        return path[::-1]


class Summary(Struct, frozen=True, kw_only=True):
    """The counts of a workflow that is too large to read as a graph."""

    name: str
    tenant: str
    groups: list[StepGroup]
    """The number of steps by queue, handler and state."""

    @property
    def tasks(self) -> int:
        """Return the number of steps."""
        return sum(group.tasks for group in self.groups)

    @property
    def states(self) -> dict[State, int]:
        """Return the number of steps in each state."""
        found = Counter[State]()
        for group in self.groups:
            found[group.state] += group.tasks
        return {state: found[state] for state in State if found[state]}

    @property
    def submitted(self) -> Micros:
        """Return when its first step was submitted."""
        return min(group.submitted for group in self.groups)

    @property
    def ended(self) -> Micros | None:
        """Return when its last step ended; None while one is unfinished."""
        if any(not group.state.final for group in self.groups):
            return None
        return max(group.finished or 0 for group in self.groups)


def step_name(step: Step) -> str:
    """Return the key of a step, or its handler and the end of its id."""
    return step.key or f"{step.handler}-{str(step.id)[-6:]}"


def count_states(states: Iterable[State]) -> dict[State, int]:
    """Count states, in the order of `State`."""
    found = Counter(states)
    return {state: found[state] for state in State if found[state]}


def sort_steps(prerequisites: Links, steps: int) -> list[int]:
    """Return positions with prerequisites first, otherwise in the given order; steps in or after a cycle come last."""
    pairs = list(prerequisites.pairs)
    dependents = Links(steps, [parent for _, parent in pairs], [child for child, _ in pairs])
    left = array("l", (prerequisites.number(place) for place in range(steps)))
    order = [place for place in range(steps) if not left[place]]
    for place in order:  # It grows during the loop.
        for below in dependents[place]:
            left[below] -= 1
            if not left[below]:
                order.append(below)
    return order + [place for place in range(steps) if left[place]]

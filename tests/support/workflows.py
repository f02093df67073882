"""Build workflows as values, without a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.operations.workflow_graph import Links, Workflow
from windlass.stores.workflow_reads import Step

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def a_workflow(
    edges: Sequence[tuple[int, int]],
    tasks: int,
    *,
    handler: Callable[[int], str] = lambda place: f"handler{place}",
    state: Callable[[int], State] = lambda _: State.COMPLETED,
    took: Callable[[int], float] = lambda _: 1.0,
    waited: Callable[[int], float] = lambda _: 0.5,
    key: Callable[[int], str | None] = lambda place: f"step{place}",
) -> Workflow:
    """Return a workflow with edges (prerequisite, dependent), where each prerequisite has the smaller number.

    Each completed step is claimed `waited` seconds after its last prerequisite ended, and takes `took` seconds.
    """
    above: list[list[int]] = [[] for _ in range(tasks)]
    for parent, child in edges:
        above[child].append(parent)
    ends: list[int] = []
    steps: list[Step] = []
    for place in range(tasks):
        ready = max([START, *(ends[parent] for parent in above[place])])
        claimed = ready + round(waited(place) * SECOND)
        ends.append(claimed + round(took(place) * SECOND))
        now = state(place)
        steps.append(
            Step(
                id=TaskId(UUID(int=place + 1)),
                key=key(place),
                handler=handler(place),
                queue="default",
                state=now,
                submitted=START,
                claimed=claimed if now.final or now is State.LEASED else None,
                finished=ends[-1] if now.final else None,
                reason=None,
            )
        )
    links = Links(tasks, [child for _, child in edges], [parent for parent, _ in edges])
    return Workflow("flow", "acme", steps, links)

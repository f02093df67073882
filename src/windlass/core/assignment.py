"""The message with which a node starts an attempt on a worker.

It is encoded as a msgpack array without field names, to keep it small.
"""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros


class Assignment(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What a worker needs to run an attempt and to report its end."""

    task: UUID
    fence: int
    session: UUID
    handler: str
    args: str
    """JSON text of an object, with references already replaced by results."""
    attempt: int = 1
    """The number of the attempt, from 1."""
    queue: str = "default"
    tenant: str = "default"
    workflow: str | None = None
    key: str | None = None
    deadline: Micros | None = None
    slots: int = 1
    trace: str | None = None

    @property
    def lease(self) -> Lease:
        """The lease of the attempt, which every report must name."""
        return Lease(TaskId(self.task), self.fence, SessionId(self.session))


def assignment_of(claim: Claim, args: str | None = None) -> Assignment:
    """Return the assignment of a claimed task. `args` are its arguments with references replaced."""
    task, rules = claim.task, claim.task.rules
    return Assignment(
        task=task.id,
        fence=claim.lease.fence,
        session=claim.lease.session,
        handler=task.handler,
        args=task.args if args is None else args,
        attempt=task.attempts + 1,
        queue=task.queue,
        tenant=task.tenant,
        workflow=task.workflow,
        key=task.key,
        deadline=task.deadline,
        slots=rules.slots,
        trace=rules.trace,
    )

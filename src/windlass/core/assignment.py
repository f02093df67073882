"""One attempt as a node hands it to a worker: all that is needed to run it and to report its end, and nothing more.

It travels as msgpack, field by field without names, so that a worker which lives for one task is told in few bytes.
"""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros


class Assignment(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What a worker is told about the attempt it shall run."""

    task: UUID
    fence: int
    session: UUID
    handler: str
    args: str
    """JSON text of an object; references to other tasks are already replaced by their results."""
    attempt: int = 1
    """Which attempt this is, from 1."""
    queue: str = "default"
    tenant: str = "default"
    workflow: str | None = None
    key: str | None = None
    deadline: Micros | None = None
    slots: int = 1
    trace: str | None = None

    @property
    def lease(self) -> Lease:
        """The right under which every report of the attempt comes."""
        return Lease(TaskId(self.task), self.fence, SessionId(self.session))


def assignment_of(claim: Claim, args: str | None = None) -> Assignment:
    """The order for a claimed task; `args` are its arguments once the references in them are resolved."""
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

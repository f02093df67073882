"""The message with which a node starts an attempt on a worker.

It is encoded as a msgpack array without field names, to keep it small.
"""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros

NO_SESSION = UUID(int=0)


class Assignment(Struct, kw_only=True, gc=False, array_like=True):
    """What a worker needs to run an attempt and to report its end."""

    ticket: int = 0
    """The right to start the attempt (`windlass.worker.tickets`), which also names it; 0 outside a worker."""
    task: UUID
    fence: int
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
    session: UUID = NO_SESSION
    """The session of the lease. A message of many assignments has it once, and the worker sets it."""

    @property
    def lease(self) -> Lease:
        """The lease of the attempt, which every report must name."""
        return Lease(TaskId(self.task), self.fence, SessionId(self.session))


AssignmentFields: TypeAlias = tuple[
    int, UUID, int, str, str, int, str, str, str | None, str | None, Micros | None, int, str | None
]
"""The fields of an assignment up to `trace`, in their order. A node sends them without building the object."""


def assignment_fields(ticket: int, slots: int, claim: Claim) -> AssignmentFields:
    """Return the fields of the assignment of a claimed task. `slots` are those that it gets, not those it asked for."""
    lease = claim.lease
    return (
        ticket,
        lease.task,
        lease.fence,
        claim.handler,
        claim.args,
        claim.attempts + 1,
        claim.queue,
        claim.tenant,
        claim.workflow,
        claim.key,
        claim.deadline,
        slots,
        claim.rules.trace,
    )


def assignment_of(claim: Claim, args: str | None = None) -> Assignment:
    """Return the assignment of a claimed task. `args` are its arguments with references replaced."""
    rules = claim.rules
    return Assignment(
        task=claim.lease.task,
        fence=claim.lease.fence,
        session=claim.lease.session,
        handler=claim.handler,
        args=claim.args if args is None else args,
        attempt=claim.attempts + 1,
        queue=claim.queue,
        tenant=claim.tenant,
        workflow=claim.workflow,
        key=claim.key,
        deadline=claim.deadline,
        slots=rules.slots,
        trace=rules.trace,
    )

"""Workers in any language: a session, claims, renewals and the ends of attempts, with the same fences as a node's.

The server decides nothing that a node would not: how an attempt ends is settled by the task's own policy, and written
under the lease that the worker names. A report that comes too late changes nothing, says so, and harms no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

import msgspec

from windlass.clock import jitter, monotonic
from windlass.core.payload import encode_result
from windlass.core.references import referenced_ids, with_results
from windlass.core.retry import Error
from windlass.core.settlement import RELEASED, Outcome, Raised, Released, Returned, Settlement, settle
from windlass.core.task import Claim, Lease, Progress, SessionId, Task, TaskId
from windlass.core.times import duration, micros
from windlass.errors import InvalidPayload, InvalidTask, Refused, StaleLease, WindlassError
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.http.streaming import Live
from windlass.server.workers import breaker_probes
from windlass.server.workers.http_workers import Capabilities
from windlass.stores.protocol import LeaseLost, Verdict
from windlass.wire.problems import problem_of
from windlass.wire.sessions import (
    MOST_REPORTS,
    ClaimTasks,
    GiveEnd,
    GiveProgress,
    LeaseShape,
    OpenSession,
    Orders,
    Progressed,
    Renewed,
    SessionShape,
    Verdicts,
    VerdictShape,
    order_shape,
)

route = Routes("work")

RENEWALS = 5
"""How many renewals fit into the life of a session."""
ONE_TASK = ClaimTasks()
_chance = partial(jitter, 0.0, 1.0)


@route("POST", "/sessions", Scope.WORK, status=201, unrestricted=True, errors=["invalid_task"])
def open_session(call: Call, body: OpenSession) -> SessionShape:
    """Come to work. Until it is renewed in vain, or closed, the session holds what it has claimed."""
    skills = Capabilities(
        queues=tuple(body.queues),
        pools={name: {"queues": queues} for name, queues in body.pools.items()} or None,
        handlers=None if body.handlers is None else frozenset(body.handlers),
        tags=frozenset(body.tags),
        slots=body.slots,
    )
    ttl = timedelta(seconds=body.ttl_seconds)
    session = call.store.open_session(body.node, ttl, about=msgspec.json.encode(skills, order="sorted").decode())
    call.store.report(session, "{}")  # So that its probes of a downstream are known to be alive.
    call.workers.learn(session, skills)
    call.workers.sweep()
    return SessionShape(session=session, ttl_seconds=body.ttl_seconds, renew_seconds=body.ttl_seconds / RENEWALS)


@route("POST", "/sessions/{session}/claim", Scope.WORK, unrestricted=True, errors=["session_lost"])
async def claim_tasks(call: Call, live: Live, session: UUID, body: ClaimTasks = ONE_TASK) -> Orders:
    """Lease some tasks, or wait for them. If the answer is lost on its way, close the session and open another."""
    held, hall = SessionId(session), call.workers.hall
    skills = await live.run(lambda: call.workers.skills(held))
    queues = tuple(dict.fromkeys(body.queues or skills.queues)) or ("default",)
    ends = monotonic() + body.wait_seconds
    while True:
        orders = await live.run(lambda: _claim(call, held, queues, body.limit), partial(_release, call, held))
        left = ends - monotonic()
        if orders.tasks:
            hall.next(queues)
        if orders.tasks or left <= 0 or hall.closed:
            return orders
        await hall.wait(queues, left)


@route("POST", "/sessions/{session}/renew", Scope.WORK, unrestricted=True, errors=["session_lost"])
def renew_session(call: Call, session: UUID) -> Renewed:
    """Keep everything that the session holds; answers with the attempts that are to be stopped."""
    call.workers.sweep()
    return Renewed(cancel=_leases(call.store.renew(SessionId(session))))


@route("POST", "/sessions/{session}/progress", Scope.WORK, unrestricted=True, errors=["too_many_tasks"])
def give_progress(call: Call, session: UUID, body: list[GiveProgress]) -> Progressed:
    """Say how far attempts have come; answers with those of them that have ended."""
    _check_number(body)
    reports = [
        Progress(lease=_lease(session, each.task, each.fence), share=each.share, message=each.message) for each in body
    ]
    return Progressed(ended=_leases(call.store.progress(reports)))


@route("POST", "/sessions/{session}/settle", Scope.WORK, unrestricted=True, errors=["too_many_tasks"])
def settle_tasks(call: Call, session: UUID, body: list[GiveEnd]) -> Verdicts:
    """Write the ends of attempts. A report that is refused has its own `error`, and the others stand.

    `stale_fence` means that the lease had ended: nothing was written, and the task may run elsewhere. Reporting the
    same end twice does no harm.
    """
    _check_number(body)
    tasks = call.store.get([TaskId(each.task) for each in body])
    verdicts: dict[int, VerdictShape] = {}
    decided: dict[int, tuple[Lease, Settlement]] = {}
    heard: dict[int, tuple[Task, Outcome]] = {}
    for index, (end, task) in enumerate(zip(body, tasks, strict=True)):
        lease = _lease(session, end.task, end.fence)
        try:
            if task is None:
                raise StaleLease(f"({end.task}, {end.fence})")
            outcome = _outcome(end)
            settlement = settle(task, outcome, _chance)
        except WindlassError as error:
            verdicts[index] = VerdictShape(task=end.task, fence=end.fence, error=problem_of(error))
        else:
            decided[index] = lease, msgspec.structs.replace(settlement, log=end.log)
            heard[index] = task, outcome
    written = call.store.settle(list(decided.values()))
    for index, verdict in zip(decided, written, strict=True):
        verdicts[index] = _verdict(verdict)
        if isinstance(verdict, LeaseLost):
            del heard[index]
    breaker_probes.heard(call.store, SessionId(session), heard.values(), call.now)
    return Verdicts(verdicts=[verdicts[index] for index in sorted(verdicts)])


@route("DELETE", "/sessions/{session}", Scope.WORK, unrestricted=True)
def close_session(call: Call, session: UUID) -> None:
    """Close the session. What it still holds is released at no charge; closing twice does nothing.

    A task that runs at most once fails instead: the session does not say whether it was begun. Settle as `released`
    what was not.
    """
    call.store.close_session(SessionId(session))
    call.workers.forget(SessionId(session))


def _claim(call: Call, session: SessionId, queues: Sequence[str], limit: int) -> Orders:
    """Claim what this worker can run."""
    call.workers.sweep()
    claims = breaker_probes.claim(call.store, session, queues, limit, call.now, call.workers.skills(session).serves)
    if not claims:
        return Orders(tasks=[])
    wanted = list(dict.fromkeys(id for each in claims for id in referenced_ids(each.task.args)))
    found = call.store.get(wanted) if wanted else []
    results = {id: None if task is None else task.result for id, task in zip(wanted, found, strict=True)}
    orders: list[tuple[Claim, str]] = []
    broken: list[tuple[Claim, Outcome]] = []
    for each in claims:
        try:
            orders.append((each, with_results(each.task.args, results)))
        except InvalidPayload as error:
            broken.append((each, Raised(Error(kind="InvalidPayload", message=str(error)), give_up=True)))
    if broken:
        call.store.settle([(each.lease, settle(each.task, outcome, _chance)) for each, outcome in broken])
        breaker_probes.heard(call.store, session, [(each.task, Released()) for each, _ in broken], call.now)
    return Orders(tasks=[order_shape(each, args) for each, args in orders])


def _release(call: Call, session: SessionId, orders: Orders) -> None:
    """Give back what was claimed for somebody who is no longer there."""
    if not orders.tasks:
        return
    call.store.settle([(_lease(session, order.task, order.fence), RELEASED) for order in orders.tasks])
    tasks = call.store.get([TaskId(order.task) for order in orders.tasks])
    breaker_probes.heard(call.store, session, [(task, Released()) for task in tasks if task is not None], call.now)


def _outcome(end: GiveEnd) -> Outcome:
    delay = None if end.retry_in is None else micros(duration(end.retry_in, "retry_in"))
    if delay is not None and delay < 0:
        raise InvalidTask(f"retry_in={end.retry_in!r} is in the past; give zero or more")
    match end.outcome:
        case "completed":
            return Returned(encode_result(end.result))
        case "released":
            return Released(delay or 0)
        case "failed":
            error = end.error
            if error is None:
                raise InvalidTask('error is missing; say what went wrong, as in {"kind": "Timeout"}')
            told = Error(kind=error.kind, message=error.message, traceback=error.traceback)
            return Raised(told, delay, end.give_up)


def _verdict(verdict: Verdict) -> VerdictShape:
    lease = verdict.lease
    if isinstance(verdict, LeaseLost):
        stale = problem_of(StaleLease(f"({lease.task}, {lease.fence})"))
        return VerdictShape(task=lease.task, fence=lease.fence, error=stale)
    return VerdictShape(task=lease.task, fence=lease.fence, state=verdict.state.value)


def _lease(session: UUID, task: UUID, fence: int) -> Lease:
    return Lease(TaskId(task), fence, SessionId(session))


def _leases(leases: Sequence[Lease]) -> list[LeaseShape]:
    return [LeaseShape(task=lease.task, fence=lease.fence) for lease in leases]


def _check_number(reports: Sequence[object]) -> None:
    if len(reports) > MOST_REPORTS:
        raise Refused("too_many_tasks", f"{len(reports):,} reports at once; at most {MOST_REPORTS:,} are taken")

"""Worker sessions over HTTP: open, claim, renew, report progress, settle, close. Workers may use any language.

The server decides nothing that a node would not: the task's own policy settles how an attempt ends, and the result is
written under the lease that the worker names. A late report changes nothing, says so, and does not affect the others.
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
    MAX_REPORTS,
    AttemptReport,
    ClaimedTasks,
    ClaimTasks,
    EndedAttempts,
    LeaseShape,
    OpenSession,
    ProgressReport,
    RenewedSession,
    SessionShape,
    Verdicts,
    VerdictShape,
    claimed_task,
)

route = Routes("work")

RENEWALS = 5
"""How often a session is renewed within its TTL."""
ONE_TASK = ClaimTasks()
_random = partial(jitter, 0.0, 1.0)


@route("POST", "/sessions", Scope.WORK, status=201, unrestricted=True, errors=["invalid_task"])
def open_session(call: Call, body: OpenSession) -> SessionShape:
    """Open a worker session. Renew it within its TTL, or its leases are released."""
    capabilities = Capabilities(
        queues=tuple(body.queues),
        pools={name: {"queues": queues} for name, queues in body.pools.items()} or None,
        handlers=None if body.handlers is None else frozenset(body.handlers),
        tags=frozenset(body.tags),
        slots=body.slots,
    )
    ttl = timedelta(seconds=body.ttl_seconds)
    session = call.store.open_session(body.node, ttl, about=msgspec.json.encode(capabilities, order="sorted").decode())
    call.store.report(session, "{}")  # Marks the session as alive, so that its breaker probes count.
    call.workers.cache(session, capabilities)
    call.workers.start_sweeper()
    return SessionShape(session=session, ttl_seconds=body.ttl_seconds, renew_seconds=body.ttl_seconds / RENEWALS)


@route("POST", "/sessions/{session}/claim", Scope.WORK, unrestricted=True, errors=["session_lost"])
async def claim_tasks(call: Call, live: Live, session: UUID, body: ClaimTasks = ONE_TASK) -> ClaimedTasks:
    """Claim tasks, or wait for some. If the response is lost, close the session and open a new one."""
    id, waiters = SessionId(session), call.workers.waiters
    capabilities = await live.run(lambda: call.workers.capabilities(id))
    queues = tuple(dict.fromkeys(body.queues or capabilities.queues)) or ("default",)
    deadline = monotonic() + body.wait_seconds
    while True:
        claimed = await live.run(lambda: _claim(call, id, queues, body.limit), partial(_release, call, id))
        left = deadline - monotonic()
        if claimed.tasks:
            waiters.wake_next(queues)
        if claimed.tasks or left <= 0 or waiters.closed:
            return claimed
        await waiters.wait(queues, left)


@route("POST", "/sessions/{session}/renew", Scope.WORK, unrestricted=True, errors=["session_lost"])
def renew_session(call: Call, session: UUID) -> RenewedSession:
    """Renew a session and all of its leases. Returns the attempts to stop."""
    call.workers.start_sweeper()
    return RenewedSession(cancel=_leases(call.store.renew(SessionId(session))))


@route("POST", "/sessions/{session}/progress", Scope.WORK, unrestricted=True, errors=["too_many_tasks"])
def report_progress(call: Call, session: UUID, body: list[ProgressReport]) -> EndedAttempts:
    """Report the progress of attempts. Returns those of them that no longer hold their lease."""
    _check_number(body)
    reports = [
        Progress(lease=_lease(session, each.task, each.fence), share=each.share, message=each.message) for each in body
    ]
    return EndedAttempts(ended=_leases(call.store.progress(reports)))


@route("POST", "/sessions/{session}/settle", Scope.WORK, unrestricted=True, errors=["too_many_tasks"])
def settle_tasks(call: Call, session: UUID, body: list[AttemptReport]) -> Verdicts:
    """Settle attempts. A refused report has its own `error` and does not affect the others.

    `stale_fence` means that the lease has ended: nothing was written, and the task may run elsewhere. Reports can be
    repeated safely.
    """
    _check_number(body)
    tasks = call.store.get([TaskId(each.task) for each in body])
    verdicts: dict[int, VerdictShape] = {}
    decided: dict[int, tuple[Lease, Settlement]] = {}
    outcomes: dict[int, tuple[Task, Outcome]] = {}
    for index, (report, task) in enumerate(zip(body, tasks, strict=True)):
        lease = _lease(session, report.task, report.fence)
        try:
            if task is None:
                raise StaleLease(f"({report.task}, {report.fence})")
            outcome = _outcome(report)
            settlement = settle(task, outcome, _random)
        except WindlassError as error:
            verdicts[index] = VerdictShape(task=report.task, fence=report.fence, error=problem_of(error))
        else:
            decided[index] = lease, msgspec.structs.replace(settlement, log=report.log)
            outcomes[index] = task, outcome
    written = call.store.settle(list(decided.values()))
    for index, verdict in zip(decided, written, strict=True):
        verdicts[index] = _verdict(verdict)
        if isinstance(verdict, LeaseLost):
            del outcomes[index]
    breaker_probes.record(call.store, SessionId(session), outcomes.values(), call.now)
    return Verdicts(verdicts=[verdicts[index] for index in sorted(verdicts)])


@route("DELETE", "/sessions/{session}", Scope.WORK, unrestricted=True)
def close_session(call: Call, session: UUID) -> None:
    """Close a session and release its leases. Does nothing if it is closed already.

    A released attempt does not count, except for a task with `at_most_once`: it fails, because it may have started.
    Settle such a task as `released` before, if it has not started.
    """
    call.store.close_session(SessionId(session))
    call.workers.forget(SessionId(session))


def _claim(call: Call, session: SessionId, queues: Sequence[str], limit: int) -> ClaimedTasks:
    """Claim tasks that this worker can run. Tasks whose referenced results are missing fail."""
    call.workers.start_sweeper()
    claims = breaker_probes.claim(
        call.store, session, queues, limit, call.now, call.workers.capabilities(session).serves
    )
    if not claims:
        return ClaimedTasks(tasks=[])
    wanted = list(dict.fromkeys(id for each in claims for id in referenced_ids(each.task.args)))
    found = call.store.get(wanted) if wanted else []
    results = {id: None if task is None else task.result for id, task in zip(wanted, found, strict=True)}
    runnable: list[tuple[Claim, str]] = []
    invalid: list[tuple[Claim, Outcome]] = []
    for each in claims:
        try:
            runnable.append((each, with_results(each.task.args, results)))
        except InvalidPayload as error:
            invalid.append((each, Raised(Error(kind="InvalidPayload", message=str(error)), give_up=True)))
    if invalid:
        call.store.settle([(each.lease, settle(each.task, outcome, _random)) for each, outcome in invalid])
        breaker_probes.record(call.store, session, [(each.task, Released()) for each, _ in invalid], call.now)
    return ClaimedTasks(tasks=[claimed_task(each, args) for each, args in runnable])


def _release(call: Call, session: SessionId, claimed: ClaimedTasks) -> None:
    """Release tasks that were claimed for a client that has disconnected."""
    if not claimed.tasks:
        return
    call.store.settle([(_lease(session, each.task, each.fence), RELEASED) for each in claimed.tasks])
    tasks = call.store.get([TaskId(each.task) for each in claimed.tasks])
    breaker_probes.record(call.store, session, [(task, Released()) for task in tasks if task is not None], call.now)


def _outcome(report: AttemptReport) -> Outcome:
    delay = None if report.retry_in is None else micros(duration(report.retry_in, "retry_in"))
    if delay is not None and delay < 0:
        raise InvalidTask(f"retry_in={report.retry_in!r} is negative. Use zero or more.")
    match report.outcome:
        case "completed":
            return Returned(encode_result(report.result))
        case "released":
            return Released(delay or 0)
        case "failed":
            error = report.error
            if error is None:
                raise InvalidTask('error: required for outcome "failed", as in {"kind": "Timeout"}')
            return Raised(
                Error(kind=error.kind, message=error.message, traceback=error.traceback), delay, report.give_up
            )


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
    if len(reports) > MAX_REPORTS:
        raise Refused("too_many_tasks", f"{len(reports):,} reports in one request. The limit is {MAX_REPORTS:,}.")

"""Worker sessions over HTTP: open, claim, renew, report progress, settle, close. Workers may use any language.

The server decides nothing that a node would not: the task's own policy settles how an attempt ends, and the result is
written under the lease that the worker names. A late report changes nothing, says so, and does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

import msgspec

from windlass.client.execution import MAX_MESSAGE, MAX_TRACEBACK, truncate
from windlass.clock import jitter, monotonic
from windlass.core.output import cut_output
from windlass.core.payload import encode_result
from windlass.core.references import referenced_ids, with_results
from windlass.core.retry import Error
from windlass.core.serving import Serves
from windlass.core.settlement import RELEASED, Outcome, Raised, Released, Returned, Settlement, settle
from windlass.core.task import Claim, Lease, Progress, Rules, SessionId, Task, TaskId
from windlass.core.times import duration, micros
from windlass.errors import InvalidPayload, InvalidTask, Refused, SessionLost, StaleLease, WindlassError
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
    ClaimedTask,
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
MAX_CLAIM_BYTES = 8 * 2**20
"""How many bytes of arguments one claim may return. It returns fewer tasks because of it, but at least one."""
CHUNK = 100
ONE_TASK = ClaimTasks()
SECOND = 1_000_000
_random = partial(jitter, 0.0, 1.0)


@route("POST", "/sessions", Scope.WORK, status=201, errors=["invalid_task"])
def open_session(call: Call, body: OpenSession) -> SessionShape:
    """Open a worker session. Renew it within its TTL, or its leases are released.

    Only the token that opened a session can use it. A token limited to a queue can claim from that queue only.
    """
    _check_queues(call, [*body.queues, *(queue for queues in body.pools.values() for queue in queues)])
    capabilities = Capabilities(
        queues=tuple(body.queues),
        pools={name: {"queues": queues} for name, queues in body.pools.items()} or None,
        handlers=None if body.handlers is None else frozenset(body.handlers),
        tags=frozenset(body.tags),
        slots=body.slots,
        memory=body.memory,
        owner=call.caller.name,
    )
    ttl = timedelta(seconds=body.ttl_seconds)
    session = call.store.open_session(body.node, ttl, about=msgspec.json.encode(capabilities, order="sorted").decode())
    call.store.report(session, "{}")  # Marks the session as alive, so that its breaker probes count.
    call.workers.cache(session, capabilities)
    call.workers.start_sweeper()
    return SessionShape(session=session, ttl_seconds=body.ttl_seconds, renew_seconds=body.ttl_seconds / RENEWALS)


@route("POST", "/sessions/{session}/claim", Scope.WORK, errors=["session_lost"])
async def claim_tasks(call: Call, live: Live, session: UUID, body: ClaimTasks = ONE_TASK) -> ClaimedTasks:
    """Claim tasks, or wait for some. If the response is lost, close the session and open a new one."""
    id, waiters = SessionId(session), call.workers.waiters
    capabilities = await live.run(lambda: _capabilities(call, id))
    queues = tuple(dict.fromkeys(body.queues or capabilities.queues)) or ("default",)
    _check_queues(call, queues)
    deadline = monotonic() + body.wait_seconds
    while True:
        claimed = await live.run(
            lambda: _claim(call, id, queues, body.limit, capabilities.serves), partial(_release, call, id)
        )
        left = deadline - monotonic()
        if claimed.tasks:
            waiters.wake_next(queues)
        if claimed.tasks or left <= 0 or waiters.closed:
            return claimed
        await waiters.wait(queues, left)


@route("POST", "/sessions/{session}/renew", Scope.WORK, errors=["session_lost"])
def renew_session(call: Call, session: UUID) -> RenewedSession:
    """Renew a session and all of its leases. Returns the attempts to stop."""
    _capabilities(call, SessionId(session))
    call.workers.start_sweeper()
    return RenewedSession(cancel=_leases(call.store.renew(SessionId(session))))


@route("POST", "/sessions/{session}/progress", Scope.WORK, errors=["session_lost", "too_many_tasks"])
def report_progress(call: Call, session: UUID, body: list[ProgressReport]) -> EndedAttempts:
    """Report the progress and the output of running attempts. Returns those that no longer hold their lease."""
    _check_number(body)
    _capabilities(call, SessionId(session))
    progress: list[Progress] = []
    outputs: list[tuple[Lease, str]] = []
    for each in body:
        lease = _lease(session, each.task, each.fence)
        if each.output is not None:
            outputs.append((lease, cut_output(each.output)))
        if each.output is None or each.share is not None or each.message is not None:
            progress.append(Progress(lease=lease, share=each.share, message=each.message))
    ended = [*call.store.progress(progress), *call.store.record_output(outputs)]
    return EndedAttempts(ended=_leases(list(dict.fromkeys(ended))))


@route("POST", "/sessions/{session}/settle", Scope.WORK, errors=["session_lost", "too_many_tasks"])
def settle_tasks(call: Call, session: UUID, body: list[AttemptReport]) -> Verdicts:
    """Settle attempts. A refused report has its own `error` and does not affect the others.

    `stale_fence` means that the lease has ended: nothing was written, and the task may run elsewhere. Reports can be
    repeated safely.
    """
    _check_number(body)
    _capabilities(call, SessionId(session))
    verdicts: dict[int, VerdictShape] = {}
    decided: dict[int, tuple[Lease, Settlement]] = {}
    outcomes: dict[int, tuple[Rules, Outcome]] = {}
    for index, (report, task) in enumerate(_with_tasks(call, body)):
        lease = _lease(session, report.task, report.fence)
        try:
            if task is None:
                raise StaleLease(f"({report.task}, {report.fence})")
            outcome = _outcome(report)
            settlement = settle(task, outcome, _random)
        except WindlassError as error:
            verdicts[index] = VerdictShape(task=report.task, fence=report.fence, error=problem_of(error))
        else:
            ran = None if report.ran_seconds is None else round(report.ran_seconds * SECOND)
            log = None if report.log is None else cut_output(report.log)
            decided[index] = lease, msgspec.structs.replace(settlement, log=log, ran=ran)
            outcomes[index] = task.rules, outcome
    written = call.store.settle(list(decided.values()))
    for index, verdict in zip(decided, written, strict=True):
        verdicts[index] = _verdict(verdict)
        if isinstance(verdict, LeaseLost):
            del outcomes[index]
    breaker_probes.record(call.store, SessionId(session), outcomes.values(), call.now)
    return Verdicts(verdicts=[verdicts[index] for index in sorted(verdicts)])


@route("DELETE", "/sessions/{session}", Scope.WORK, errors=["session_lost"])
def close_session(call: Call, session: UUID) -> None:
    """Close a session and release its leases. Does nothing if it is closed already.

    A released attempt does not count, except for a task with `at_most_once`: it fails, because it may have started.
    Settle such a task as `released` before, if it has not started.
    """
    _capabilities(call, SessionId(session))
    call.store.close_session(SessionId(session))
    call.workers.forget(SessionId(session))


def _capabilities(call: Call, session: SessionId) -> Capabilities:
    """Return what the worker of a session can run. Refuse a session that another token or a node has opened as lost."""
    found = call.workers.capabilities(session)
    if found is not None and found.owner != call.caller.name:
        raise SessionLost(session)
    return found or Capabilities()


def _check_queues(call: Call, queues: Sequence[str]) -> None:
    """Refuse queues outside of the token's limits. A claim cannot be limited to a tenant."""
    if call.caller.tenant is not None:
        raise Refused("forbidden", f"Token {call.caller.name!r} is limited to a tenant, and workers serve all tenants.")
    for queue in queues:
        if call.caller.queue not in (None, queue):
            text = f"queues: {queue!r}: this token works for {call.caller.queue} only."
            raise Refused("forbidden", text, field="queues")


def _claim(call: Call, session: SessionId, queues: Sequence[str], limit: int, serves: Serves) -> ClaimedTasks:
    """Claim tasks that this worker can run. Tasks whose referenced results are missing fail.

    What does not fit into one response is released again.
    """
    call.workers.start_sweeper()
    claims = breaker_probes.claim(call.store, session, queues, limit, call.now, serves)
    if not claims:
        return ClaimedTasks(tasks=[])
    runnable: list[ClaimedTask] = []
    returned: list[tuple[Claim, Outcome]] = []
    size = 0
    for each in claims:
        if size > MAX_CLAIM_BYTES:
            returned.append((each, Released()))
            continue
        # One task that cannot be sent must not leave the others leased without a worker that knows of them.
        try:
            args = with_results(each.args, _results(call, each))
            runnable.append(claimed_task(each, args))
            size += len(args)
        except (InvalidPayload, msgspec.MsgspecError) as error:
            text = str(error) if isinstance(error, InvalidPayload) else f"args: not valid JSON: {error}"
            returned.append((each, Raised(Error(kind="InvalidPayload", message=text), give_up=True)))
    if returned:
        call.store.settle([(each.lease, settle(each, outcome, _random)) for each, outcome in returned])
        breaker_probes.record(call.store, session, [(each.rules, Released()) for each, _ in returned], call.now)
    return ClaimedTasks(tasks=runnable)


def _results(call: Call, claim: Claim) -> dict[TaskId, str | None]:
    """Return the results to which the arguments of a task refer. They may be large, so tasks do not share a read."""
    wanted = referenced_ids(claim.args)
    found = call.store.get(wanted) if wanted else []
    return {id: None if task is None else task.result for id, task in zip(wanted, found, strict=True)}


def _release(call: Call, session: SessionId, claimed: ClaimedTasks) -> None:
    """Release tasks that were claimed for a client that has disconnected."""
    if not claimed.tasks:
        return
    call.store.settle([(_lease(session, each.task, each.fence), RELEASED) for each in claimed.tasks])
    tasks = call.store.get([TaskId(each.task) for each in claimed.tasks])
    ended = [(task.rules, Released()) for task in tasks if task is not None]
    breaker_probes.record(call.store, session, ended, call.now)


def _with_tasks(call: Call, reports: Sequence[AttemptReport]) -> Iterator[tuple[AttemptReport, Task | None]]:
    """Yield each report with its task. Only a few tasks are in memory at once, because each may be large."""
    for first in range(0, len(reports), CHUNK):
        chunk = reports[first : first + CHUNK]
        yield from zip(chunk, call.store.get([TaskId(each.task) for each in chunk]), strict=True)


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
            # As for the errors of nodes: every attempt is kept, and all of them are shown together.
            message, text = truncate(error.message, MAX_MESSAGE), truncate(error.traceback, MAX_TRACEBACK)
            return Raised(Error(kind=error.kind, message=message, traceback=text), delay, report.give_up)


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

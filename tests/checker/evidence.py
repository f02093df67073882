"""What a recording says about one call, one task or one node: shared by several rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from tests.checker.records import FINAL, Call, Effect, Fault, Recording, Transition


def list_submitted(recording: Recording) -> Iterator[tuple[str, str]]:
    """Yield the tasks of every submit, each with how the submit ended."""
    for call in recording.calls:
        if call.invoke.what == "submit":
            yield from ((id, call.status) for id in call.invoke.tasks)


def list_about(recording: Recording, call: Call) -> Iterator[str]:
    """Yield the tasks that a call is about."""
    if call.invoke.all:
        yield from (id for id, task in recording.tasks.items() if task.tenant == call.invoke.tenant)
    else:
        yield from call.invoke.tasks


def find_purged(recording: Recording) -> set[str]:
    """Return the tasks that a purge may have removed."""
    purges = (call for call in recording.calls if call.invoke.what == "purge" and call.status != "fail")
    return {id for call in purges for id in call.invoke.tasks}


def is_kept(recording: Recording, id: str) -> bool:
    """Return True if a task is in the store, and has ended if all should have."""
    task = recording.tasks.get(id)
    return task is not None and (task.state in FINAL or not recording.bounds.finished)


def find_ends(recording: Recording, id: str) -> list[tuple[float, str]]:
    """Return when a task ended, and how, as far as known."""
    changes = [(one.at, one.after) for one in recording.transitions.get(id, ()) if one.after in FINAL]
    task = recording.tasks.get(id)
    if changes or task is None or task.finished is None:
        return changes
    ends = [(one.ended, one.state) for one in recording.attempts.get(id, ()) if one.state in FINAL]
    return sorted([*ends, (task.finished, task.state)])


def find_creation(changes: Sequence[Transition]) -> int:
    """Return where a task was created last. One that was purged may be submitted again under the same key."""
    return max((place for place, change in enumerate(changes) if not change.before), default=0)


def find_generation(recording: Recording, id: str, fence: int | None = None) -> tuple[int, int]:
    """Return how often a task had been created when a fence was granted, and its generation then.

    A task that was purged and submitted again is a new task with the same id, also if the submit was one of unknown
    outcome that was committed after the purge. Without a fence, or with one that was never granted, the latest counts.
    """
    created, generation = 0, 0
    for change in recording.transitions.get(id, ()):
        created, generation = created + (not change.before), change.generation
        if change.after == "leased" and change.fence == fence:
            break
    return created, generation


def find_state(recording: Recording, id: str, at: float) -> tuple[str, str]:
    """Return the state of a task at a time and the session of its lease; without transitions, those at the end."""
    before = [change for change in recording.transitions.get(id, ()) if change.at <= at]
    if before:
        return before[-1].after, before[-1].session
    task = recording.tasks[id]
    return task.state, task.session


def list_retries(recording: Recording, id: str) -> Iterator[Call]:
    """Yield the retries that may have reopened a task: those that name it, and late ones of its prerequisites.

    A retry of unknown outcome may be committed late. With `dependents=True`, it then also reopens tasks that were
    submitted after it began, and that it therefore does not name.
    """
    for call in recording.calls:
        if call.invoke.what != "retry":
            continue
        is_late = call.status == "unknown" and not existed(recording, id, call.invoke.at)
        if id in call.invoke.tasks or (is_late and not _find_above(recording, id).isdisjoint(call.invoke.tasks)):
            yield call


def _find_above(recording: Recording, id: str) -> set[str]:
    """Return the direct and indirect prerequisites of a task."""
    above, stack = set[str](), [id]
    while stack:
        task = recording.tasks.get(stack.pop())
        fresh = set(task.prerequisites) - above if task is not None else set[str]()
        above |= fresh
        stack += fresh
    return above


def is_reopened(recording: Recording, id: str, after: float) -> bool:
    """Return True if an operator may have retried a task after this time."""
    # A call of unknown outcome may be committed at any time.
    return any(
        call.end is None or call.end.status == "unknown" or call.end.at >= after for call in list_retries(recording, id)
    )


def existed(recording: Recording, id: str, at: float) -> bool:
    """Return True if a task was certainly in the store at this time.

    Its time of submission does not show that: a store reads the clock some time before it commits.
    """
    submits = (call for call in recording.calls if call.invoke.what == "submit" and id in call.invoke.tasks)
    acknowledged = any(call.end is not None and call.end.status == "ok" and call.end.at <= at for call in submits)
    return acknowledged or any(change.at <= at for change in recording.transitions.get(id, ()))


def count_duplicates(recording: Recording, id: str) -> int:
    """Count the runs of a task that began although an earlier one of the same generation had not failed before."""
    failed = {one.fence for one in recording.attempts.get(id, ()) if one.error and one.error != "NodeLost"}
    generations = {one.fence: find_generation(recording, id, one.fence) for one in recording.effects[id]}
    earlier: list[Effect] = []
    duplicates = 0
    for effect in sorted(recording.effects[id], key=lambda one: one.start):
        same = [one for one in earlier if generations[one.fence] == generations[effect.fence]]
        duplicates += any(one.fence not in failed for one in same)
        earlier.append(effect)
    return duplicates


def find_live_sessions(recording: Recording, node: str, at: float) -> set[str]:
    """Return the sessions that a node had at a time: valid, and opened since it started.

    The session of an earlier start may still be valid: its node was killed, or its close was committed later.
    """
    renewed: dict[str, float] = {}
    opened: dict[str, float] = {}
    for renewal in recording.renewals:
        if renewal.at <= at:
            renewed[renewal.session] = max(renewal.until, renewed.get(renewal.session, 0.0))
            opened[renewal.session] = min(renewal.at, opened.get(renewal.session, at))
    kills = [fault for fault in recording.faults if (fault.kind, fault.node) == ("kill", node) and fault.start <= at]
    drains = [call.end for call in recording.calls if (call.invoke.what, call.invoke.node) == ("drain", node)]
    ends = [fault.end or fault.start for fault in kills] + [end.at for end in drains if end and end.at <= at]
    back = max(ends, default=0.0)
    mine = {id for id, of in recording.nodes.items() if of == node}
    return {id for id in mine if renewed.get(id, 0.0) >= at and opened.get(id, 0.0) >= back}


class Recovery(Struct, frozen=True):
    """A task that became free after its node was lost."""

    task: str
    node: str
    kind: str
    """What happened to the node."""
    seconds: float
    """From the fault until another node could run the task."""
    allowed: float
    """How many seconds the faults of that time allow."""


def list_recoveries(recording: Recording) -> Iterator[Recovery]:
    """Yield the tasks that nodes lost because of a fault of the node."""
    # Where sessions are not recorded, a fault names those that its node had.
    freed = _list_freed_by_transition if recording.renewals else _list_freed_by_attempt
    for fault, task, session, at in freed(recording):
        # A renewal that was on its way may have been committed after the fault. The session then lasts longer.
        late = (one for one in recording.renewals if one.session == session and fault.start < one.at <= at)
        valid = max((renewal.until for renewal in late), default=0.0)
        allowed = _find_deadline(recording, fault, valid) - fault.start
        yield Recovery(task, fault.node, fault.kind, at - fault.start, allowed)


def _list_freed_by_transition(recording: Recording) -> Iterator[tuple[Fault, str, str, float]]:
    """Yield what killed nodes held, each with the kill, the session, and the time at which the lease ended."""
    for kill in (fault for fault in recording.faults if fault.kind == "kill"):
        for id, changes in recording.transitions.items():
            for grant, end in pairwise(changes):
                held = grant.after == "leased" and recording.nodes.get(grant.session) == kill.node
                if held and grant.at <= kill.start < end.at and end.before == "leased":
                    yield kill, id, grant.session, end.at


def _list_freed_by_attempt(recording: Recording) -> Iterator[tuple[Fault, str, str, float]]:
    """Yield the attempts that were lost with a session, each with the latest fault of its node before."""
    faults: dict[str, list[Fault]] = {}
    for fault in sorted(recording.faults, key=lambda one: one.start):
        for session in fault.sessions:
            faults.setdefault(session, []).append(fault)
    for id, attempts in recording.attempts.items():
        for one in attempts:
            before = [fault for fault in faults.get(one.session, ()) if fault.start <= one.ended]
            # An attempt that began after a pause was over was lost for another reason: its worker exited, for example.
            if one.error == "NodeLost" and before and one.started <= (before[-1].end or math.inf):
                yield before[-1], id, one.session, one.ended


def _find_deadline(recording: Recording, fault: Fault, valid: float) -> float:
    """Return until when the tasks of a session must be free, which is valid at least until then.

    That is later only while nobody could free them: while the store was away, or all other nodes were. Faults of some
    nodes excuse nothing.
    """
    bounds = recording.bounds
    held = max(bounds.session_ttl, bounds.transaction) if fault.kind == "pause" else bounds.session_ttl
    until = max(fault.start + held, valid) + bounds.recovery
    others = {node for node in recording.nodes.values() if node != fault.node}
    while True:
        hindering = [
            one for one in recording.faults if one.start <= until and (one.end is None or one.end >= fault.start)
        ]
        if others - {one.node for one in hindering}:
            hindering = [one for one in hindering if not one.node]
        over = [math.inf if one.end is None else one.end + bounds.recovery for one in hindering]
        if max(over, default=until) <= until:
            return until
        until = max(over)

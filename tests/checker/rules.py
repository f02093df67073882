"""The rules R1 to R23: what a recording must not show, each with the number of the promise that it checks.

A rule yields a sentence for each violation. It judges only what the recording has: without transitions, for example,
the rules about leases use the attempts in the store. What is unknown excuses: a submit without an answer may be in the
store or not, but never in part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import TypeAlias

from tests.checker.evidence import (
    existed,
    find_creation,
    find_ends,
    find_generation,
    find_live_sessions,
    find_purged,
    find_state,
    is_reopened,
    list_about,
    list_recoveries,
    list_retries,
    list_submitted,
)
from tests.checker.records import FINAL, Recording, Transition

Rule: TypeAlias = Callable[[Recording], Iterator[str]]
EPSILON = 1e-6
_CRON_KEY = re.compile(r"cron:(.+):(\d{4}-\d\d-\d\dT[^#]+)")
UNKNOWN_HANDLER = ("UnknownHandler", "LookupError")


def r1_nothing_acknowledged_is_lost(recording: Recording) -> Iterator[str]:
    """Every acknowledged task is in the store and ends; a submit of unknown outcome is there wholly or not at all."""
    purged = find_purged(recording)
    tried: dict[str, set[str]] = {}
    for id, status in list_submitted(recording):
        tried.setdefault(id, set()).add(status)
    for id, statuses in tried.items():
        if "ok" in statuses and id not in recording.tasks and id not in purged:
            yield f"task {id} was acknowledged, and is not in the store"
        if statuses == {"fail"} and id in recording.tasks:
            yield f"task {id} is in the store, although its submit was refused"
    for call in recording.calls:
        if call.invoke.what == "submit" and call.status == "unknown":
            present = [id in recording.tasks for id in call.invoke.tasks if id not in purged]
            if any(present) and not all(present):
                yield f"the submit {call.invoke.call} is in the store in part"
    named = {id for call in recording.calls for id in call.invoke.tasks}
    for id, task in recording.tasks.items():
        if recording.calls and id not in named and not (task.key or "").startswith("cron:"):
            yield f"task {id} is in the store, and nobody has submitted it: a submit was done twice"
        if recording.bounds.finished and task.state not in FINAL:
            yield f"task {id} never ended: it is {task.state}"


def r2_one_lease_at_a_time(recording: Recording) -> Iterator[str]:
    """At every moment a task has at most one lease."""
    for id, changes in recording.transitions.items():
        holder: Transition | None = None
        for change in changes:
            if change.after == "leased" and change.before == "leased" and holder and change.session != holder.session:
                yield f"task {id} was leased to {change.session} while {holder.session} had its lease"
            holder = change if change.after == "leased" else None
    for id, attempts in recording.attempts.items():
        for earlier, later in pairwise(attempts):
            if later.started < earlier.ended - EPSILON:
                yield f"task {id}: attempt {later.fence} began before attempt {earlier.fence} had ended"


def r3_fences_grow(recording: Recording) -> Iterator[str]:
    """Every lease has a greater fence than all before, and only the latest may report."""
    for id, changes in recording.transitions.items():
        latest = -1
        for change in changes:
            if change.after == "leased" and change.before != "leased":
                if change.fence <= latest:
                    yield f"task {id} was leased with fence {change.fence} after {latest}"
                latest = change.fence
    for id, attempts in recording.attempts.items():
        repeated = [fence for fence, times in Counter(one.fence for one in attempts).items() if times > 1]
        task = recording.tasks.get(id)
        yield from (f"task {id} has two ended attempts with fence {fence}" for fence in repeated)
        if task is not None and attempts[-1].fence > task.fence:
            yield f"task {id} has an attempt with fence {attempts[-1].fence}, and its own is {task.fence}"
    for id, effects in recording.effects.items():
        for earlier, later in pairwise(effects):
            if earlier.fence == later.fence:
                yield f"task {id} ran twice with fence {later.fence}, in {earlier.process} and {later.process}"


def r4_one_outcome(recording: Recording) -> Iterator[str]:
    """A task ends at most once per generation."""
    for id, history in recording.transitions.items():
        changes = history[find_creation(history) :]
        ends = Counter(change.generation for change in changes if change.after in FINAL and change.before not in FINAL)
        yield from (f"task {id} ended {times} times in generation {of}" for of, times in ends.items() if times > 1)
    for id, attempts in recording.attempts.items():
        completed = [one.fence for one in attempts if one.state == "completed"]
        task = recording.tasks.get(id)
        if len(completed) > 1:
            yield f"task {id} was completed by several attempts: {completed}"
        if task is not None and sum(one.state in FINAL for one in attempts) > task.generation + 1:
            yield f"task {id} has more final attempts than generations"


def r5_what_completed_has_run(recording: Recording) -> Iterator[str]:
    """A completed task has run to its end, under the fence that completed it; one with `at_most_once` ran once."""
    if not recording.effects:
        return
    for id, task in recording.tasks.items():
        allowed = 1 if id in recording.transitions else task.generation + 1
        effects = recording.effects.get(id, ()) if task.at_most_once else ()
        starts = Counter(find_generation(recording, id, effect.fence) for effect in effects)
        yield from (f"task {id} has at_most_once, and started {n} times" for n in starts.values() if n > allowed)
    for id, attempts in recording.attempts.items():
        ended = {effect.fence for effect in recording.effects.get(id, ()) if effect.end is not None}
        for one in attempts:
            if one.state == "completed" and one.fence not in ended:
                yield f"task {id} was completed under fence {one.fence}, under which no handler has returned"


def r6_prerequisites_come_first(recording: Recording) -> Iterator[str]:
    """No attempt starts before every prerequisite has ended as the task's policy demands."""
    slack = recording.bounds.clock + EPSILON
    for id, effects in recording.effects.items():
        task, (created, _) = recording.tasks.get(id), find_generation(recording, id)
        latest = [effect for effect in effects if find_generation(recording, id, effect.fence)[0] == created]
        for above in task.prerequisites if task is not None and not task.generation else ():
            ends = find_ends(recording, above)
            for effect in latest:
                before = [state for at, state in ends if at <= effect.start + slack]
                if not before:
                    yield f"task {id} started before its prerequisite {above} had ended"
                elif task is not None and task.on_failure == "cancel" and "completed" not in before:
                    yield f"task {id} started although its prerequisite {above} was {before[-1]}"


def r7_ready_once(recording: Recording) -> Iterator[str]:
    """A task stops waiting for its prerequisites once per generation."""
    for id, history in recording.transitions.items():
        changes = history[find_creation(history) :]
        ready = Counter(one.generation for one in changes if one.before == "waiting" and one.after not in FINAL)
        yield from (f"task {id} became ready {times} times" for times in ready.values() if times > 1)


def r8_no_lost_wake_up(recording: Recording) -> Iterator[str]:
    """No task waits although all its prerequisites have ended."""
    for id, task in recording.tasks.items():
        above = [recording.tasks[one] for one in task.prerequisites if one in recording.tasks]
        if task.state == "waiting" and above and all(one.state in FINAL for one in above):
            yield f"task {id} waits, and all its prerequisites have ended"


def r9_graphs_are_atomic(recording: Recording) -> Iterator[str]:
    """The tasks of one submit appear together, or not at all."""
    created = {id: changes[0] for id, changes in recording.transitions.items() if not changes[0].before}
    for call in recording.calls:
        if call.invoke.what == "submit" and call.status != "fail":
            numbers = {created[id].transaction for id in call.invoke.tasks if id in created}
            if len(numbers) > 1:
                yield f"the submit {call.invoke.call} was stored in {len(numbers)} transactions"


def r10_bad_ends_spread(recording: Recording) -> Iterator[str]:
    """A task whose prerequisite ended badly ends too: cancelled, or as its own policy says."""
    for id, task in recording.tasks.items():
        for above in (recording.tasks.get(one) for one in task.prerequisites):
            if above is None or above.state == "completed" or above.generation or task.generation:
                continue
            if above.state in FINAL and task.on_failure == "cancel" and task.state not in ("cancelled", "expired"):
                yield f"task {id} is {task.state}, although its prerequisite {above.id} was {above.state}"


def r11_cancelled_is_not_started(recording: Recording) -> Iterator[str]:
    """After a cancel was answered, no new lease is granted, and what was leased before starts within bounds."""
    for call in recording.calls:
        if call.invoke.what != "cancel" or call.end is None or call.end.status != "ok":
            continue
        for id in list_about(recording, call):
            if is_reopened(recording, id, call.invoke.at) or not existed(recording, id, call.invoke.at):
                continue
            changes = recording.transitions.get(id, ())
            # A task that was purged and submitted again later was not cancelled.
            created = max(1, sum(not one.before and one.at <= call.invoke.at for one in changes))
            for change in changes:
                late = change.after == "leased" != change.before and change.at > call.end.at + EPSILON
                if late and find_generation(recording, id, change.fence)[0] <= created:
                    yield f"task {id} was leased at {change.at:.6f}, after its cancel was answered"
            for effect in recording.effects.get(id, ()):
                late = effect.start > call.end.at + recording.bounds.notice
                if late and find_generation(recording, id, effect.fence)[0] <= created:
                    yield f"task {id} started {effect.start - call.end.at:.3f} s after its cancel was answered"


def r12_expired_is_not_started(recording: Recording) -> Iterator[str]:
    """No lease is granted after the expiry, and nothing starts long after it."""
    for id, task in recording.tasks.items():
        if task.expires is None:
            continue
        for change in recording.transitions.get(id, ()):
            if change.after == "leased" != change.before and change.at >= task.expires:
                yield f"task {id} was leased after it had expired"
        for effect in recording.effects.get(id, ()):
            if effect.start > task.expires + recording.bounds.notice:
                yield f"task {id} started {effect.start - task.expires:.3f} s after it had expired"


def r13_priority(recording: Recording) -> Iterator[str]:
    """A claim passes over no task of a strictly higher priority."""
    for choice in recording.choices:
        if choice.taken and choice.left and min(choice.taken) < max(choice.left):
            yield f"a claim from {choice.queue} took priority {min(choice.taken)} and left {max(choice.left)}"


def r14_attempts_and_delays(recording: Recording) -> Iterator[str]:
    """There are no more attempts than allowed, each is recorded, and each delay is within the policy's range."""
    for id, task in recording.tasks.items():
        if task.attempts > task.max_attempts:
            yield f"task {id} has {task.attempts} attempts; at most {task.max_attempts} are allowed"
        charged, kept = task.attempts + task.crashes + task.losses, len(recording.attempts.get(id, ()))
        if kept < charged or (kept > charged and not task.generation):
            yield f"task {id} was charged for {charged} attempts, and {kept} are recorded"
    for id, changes in recording.transitions.items():
        for change in changes:
            shortest, longest = change.retry
            if change.after == "retrying" and not shortest - EPSILON <= change.due - change.at <= longest + EPSILON:
                yield f"task {id} is tried again after {change.due - change.at:.3f} s, not {shortest} to {longest}"


def r15_dead_letters_are_kept(recording: Recording) -> Iterator[str]:
    """A failed task keeps its attempts and says why; each retry by an operator opens at most one generation."""
    for id, task in recording.tasks.items():
        if task.state == "failed" and not task.reason:
            yield f"task {id} failed, and does not say why"
        if task.state == "failed" and (task.attempts or task.crashes or task.losses) and id not in recording.attempts:
            yield f"task {id} failed, and none of its attempts is recorded"
        retries = [*list_retries(recording, id)] if task.generation else []
        if recording.calls and task.generation > len(retries):
            yield f"task {id} has generation {task.generation} after {len(retries)} retries by operators"


def r16_a_cron_fires_once(recording: Recording) -> Iterator[str]:
    """A cron submits one task for each nominal time, and never before it."""
    fired: Counter[tuple[str, ...]] = Counter()
    for task in recording.tasks.values():
        match = _CRON_KEY.match(task.key or "")
        if match is not None:
            fired[match.groups()] += 1
            early = datetime.fromisoformat(match[2]).timestamp() - task.submitted
            if early > recording.bounds.clock + EPSILON:
                yield f"the cron {match[1]} fired for {match[2]}, {early:.3f} s too early"
    yield from (f"the cron {name} fired {times} times for {at}" for (name, at), times in fired.items() if times > 1)


def r17_a_drain_leaves_nothing(recording: Recording) -> Iterator[str]:
    """A drained node has no lease, and has cost no task that it had not started an attempt.

    A drain answers for the sessions that the node held when it began: opened since its last start, and not dropped.
    """
    for call in recording.calls:
        if call.invoke.what != "drain" or call.end is None or call.end.status != "ok":
            continue
        invoke = call.invoke
        sessions = set(invoke.sessions)
        if not sessions and recording.renewals:  # Without them, later sessions of the same node would be accused.
            sessions = find_live_sessions(recording, invoke.node, invoke.at)
        for id in recording.tasks:
            state, session = find_state(recording, id, call.end.at)
            if state == "leased" and session in sessions:
                yield f"task {id} is still leased to {call.invoke.node}, which was drained"
        for id, attempts in recording.attempts.items():
            for one in attempts:
                if one.session in sessions and one.error == "NodeLost" and call.invoke.at <= one.ended:
                    yield f"task {id} was lost by {call.invoke.node}, which was drained"


def r18_recovery_is_bounded(recording: Recording) -> Iterator[str]:
    """What a killed node held is free soon after its session has ended; no session is taken from a node in time."""
    bounds = recording.bounds
    for one in list_recoveries(recording):
        if one.seconds > one.allowed:
            how = f"{one.seconds:.3f} s after the {one.kind} of {one.node}, more than {one.allowed:.3f} s"
            yield f"task {one.task} was free {how}; a session lasts {bounds.session_ttl} s"
    until: dict[str, list[tuple[float, float]]] = {}
    for renewal in recording.renewals:
        until.setdefault(renewal.session, []).append((renewal.at, renewal.until))
    for lost in recording.lost:
        valid = max((end for at, end in until.get(lost.session, ()) if at <= lost.at), default=0.0)
        if lost.at <= valid:
            yield f"the session {lost.session} was taken away {valid - lost.at:.3f} s too early"


def r19_poison_is_isolated(recording: Recording) -> Iterator[str]:
    """A task that kills its process too often fails, and a process that dies costs only what it had started."""
    for id, task in recording.tasks.items():
        if task.crashes > task.max_crashes + 1:
            yield f"task {id} crashed {task.crashes} times; it fails after {task.max_crashes + 1}"
        if task.crashes > task.max_crashes and task.state not in ("failed", "cancelled"):
            yield f"task {id} is {task.state} after {task.crashes} crashes"
    if not recording.effects:
        return
    for id, attempts in recording.attempts.items():
        started = {effect.fence for effect in recording.effects.get(id, ())}
        for one in attempts:
            if one.error in ("WorkerDied", "OutOfMemory", "ValueError") and one.fence not in started:
                yield f"task {id} was charged for attempt {one.fence} ({one.error}), which never started"


def r20_tenants_are_apart(recording: Recording) -> Iterator[str]:
    """No answer names a task of another tenant, and nobody changes one."""
    for call in recording.calls:
        if not call.invoke.tenant or call.end is None:
            continue
        for id in call.end.tasks:
            task = recording.tasks.get(id)
            if task is not None and task.tenant != call.invoke.tenant:
                yield f"the answer to {call.invoke.call} of {call.invoke.tenant} names task {id} of {task.tenant}"
        if call.invoke.what in ("cancel", "retry") and call.end.status == "ok":
            for id in call.invoke.tasks:
                task = recording.tasks.get(id)
                if task is not None and task.tenant != call.invoke.tenant:
                    yield f"{call.invoke.tenant} could {call.invoke.what} task {id} of {task.tenant}"
    cancels = (call for call in recording.calls if call.invoke.what == "cancel" and call.status != "fail")
    cancelled = {id for call in cancels for id in list_about(recording, call)}
    gone = any(call.invoke.what == "purge" for call in recording.calls)  # A prerequisite that took it down, perhaps.
    for id, task in recording.tasks.items() if not gone else ():
        above = any(one in recording.tasks and recording.tasks[one].state in FINAL for one in task.prerequisites)
        if recording.calls and task.state == "cancelled" and id not in cancelled and not above:
            yield f"task {id} of {task.tenant} was cancelled, and nobody has asked for it"


def r21_no_call_hangs(recording: Recording) -> Iterator[str]:
    """Every call of a client is answered or refused in time."""
    for call in recording.calls:
        if call.invoke.what != "drain" and call.end is not None:
            seconds = call.end.at - call.invoke.at
            if seconds > recording.bounds.call:
                yield f"the call {call.invoke.call} ({call.invoke.what}) took {seconds:.1f} s"


def r22_the_record_matches(recording: Recording) -> Iterator[str]:
    """Replaying the recorded changes of a task gives the task, and every attempt lies within its lease."""
    for id, changes in recording.transitions.items():
        task = recording.tasks.get(id)
        for earlier, later in pairwise(changes):
            if later.before not in (earlier.after, ""):
                yield f"task {id} was {earlier.after}, and changed from {later.before}"
        last = changes[-1]
        if task is not None and (task.state, task.fence, task.generation) != (last.after, last.fence, last.generation):
            yield f"task {id} is {task.state}, and its record ends with {last.after}"
    for id, attempts in recording.attempts.items():
        granted = {one.fence for one in recording.transitions.get(id, ()) if one.after == "leased"}
        for one in attempts:
            if granted and one.fence not in granted:
                yield f"task {id} has an attempt with fence {one.fence}, which was never granted"


def r23_versions_run_side_by_side(recording: Recording) -> Iterator[str]:
    """A task whose handler a node does not know waits for one that does; it does not fail."""
    for id, attempts in recording.attempts.items():
        if any(one.error in UNKNOWN_HANDLER for one in attempts):
            yield f"task {id} failed because a node does not know its handler"


def _number(rule: Rule) -> str:
    return getattr(rule, "__name__", "").partition("_")[0].upper()


RULES: dict[str, Rule] = {
    _number(rule): rule
    for rule in (
        r1_nothing_acknowledged_is_lost,
        r2_one_lease_at_a_time,
        r3_fences_grow,
        r4_one_outcome,
        r5_what_completed_has_run,
        r6_prerequisites_come_first,
        r7_ready_once,
        r8_no_lost_wake_up,
        r9_graphs_are_atomic,
        r10_bad_ends_spread,
        r11_cancelled_is_not_started,
        r12_expired_is_not_started,
        r13_priority,
        r14_attempts_and_delays,
        r15_dead_letters_are_kept,
        r16_a_cron_fires_once,
        r17_a_drain_leaves_nothing,
        r18_recovery_is_bounded,
        r19_poison_is_isolated,
        r20_tenants_are_apart,
        r21_no_call_hangs,
        r22_the_record_matches,
        r23_versions_run_side_by_side,
    )
}

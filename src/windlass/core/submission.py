"""From what a caller wrote to a task that can be stored: checked, identified, given its first state and its place.

`draft` looks at nothing but the caller's words; `born` also needs what the store knows: the queue's settings, the
present moment and how the prerequisites stand. Both are pure, so every store refuses and creates exactly alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.graph import End, check_fan_in, check_graph, check_unique, unblock
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.lifecycle import EXPIRED, State
from windlass.core.names import check_name, check_text, shown
from windlass.core.ordering import Place, Queue, place
from windlass.core.payload import canonical, encode_args
from windlass.core.retry import Retry
from windlass.core.task import NewTask, OnFailure, Rules, Task, TaskId
from windlass.core.times import Micros, when
from windlass.errors import InvalidTask

MAX_BATCH = 100_000
MAX_PRIORITY = 1_000_000
MAX_CRASHES = 1_000
_DEFAULT_RULES = Rules()
_DEFAULT_RETRY = NewTask().retry


class Draft(Struct, frozen=True, kw_only=True, gc=False):
    """A checked task on its way into a store."""

    id: TaskId
    new: NewTask
    args: str
    rules: Rules
    prerequisites: tuple[TaskId, ...]
    by_key: frozenset[TaskId]
    """The prerequisites named by key: surely of this tenant and workflow, so they may be named ahead of time."""
    fingerprint: bytes | None
    """Of the body, where there is a key: the same key with another fingerprint is a conflict."""


class Birth(Struct, frozen=True, kw_only=True, gc=False):
    """A draft as it enters the store."""

    task: Task
    place: Place
    edges: Sequence[tuple[UUID, bool]]
    """Everything it waits for, and whether that has ended already."""


def draft(tasks: Sequence[NewTask], now: Micros, random: Callable[[], int]) -> list[Draft]:
    """Check a batch whole, as far as the caller's own words go, and give every task its id."""
    if len(tasks) > MAX_BATCH:
        raise InvalidTask(
            f"{len(tasks):,} tasks in one batch; at most {MAX_BATCH:,} are taken: submit in parts, "
            "with an unsealed workflow if they belong together"
        )
    # Ids of one batch grow with their place in it: neighbours in time are neighbours in every index.
    drafts = [_draft(new, now + nth, random) for nth, new in enumerate(tasks)]
    check_unique([draft.id for draft in drafts if is_named(draft.new)])
    if any(draft.prerequisites for draft in drafts):
        check_graph({draft.id: draft.prerequisites for draft in drafts})
    return drafts


def born(
    draft: Draft, queue: Queue, now: Micros, nth: int, ends: Mapping[UUID, End], also_waits_for: Iterable[UUID] = ()
) -> Birth:
    """The draft's first state and place. `ends` has the prerequisites that have ended; all others are open.

    `nth` is its place in the batch: it is due that many microseconds later, so that a batch keeps its order.
    """
    new = draft.new
    edges = [(above, above in ends) for above in (*draft.prerequisites, *also_waits_for)]
    first_due = _due(new, now)
    due = (now if first_due is None else first_due) + nth
    deadline = when(new.deadline, now, "deadline")
    expires = when(new.expires, now, "expires")
    state, waiting, reason = State.RUNNABLE if first_due is None else State.SCHEDULED, 0, None
    if edges:
        ended = [(above, ends[above]) for above in draft.prerequisites if above in ends]
        state, waiting, reason, _ = unblock(
            State.WAITING, len(edges), new.on_failure, ended, due=first_due or now, now=now
        )
    if not state.final and expires is not None and expires <= now:
        state, reason = State.EXPIRED, EXPIRED
    return Birth(
        task=Task(
            id=draft.id,
            handler=new.handler,
            args=draft.args,
            state=state,
            queue=new.queue,
            tenant=new.tenant,
            workflow=new.workflow,
            key=new.key,
            priority=new.priority,
            deadline=deadline,
            due=due,
            expires=expires,
            submitted=now,
            finished=now if state.final else None,
            waiting=waiting,
            on_failure=new.on_failure,
            reason=reason,
            rules=draft.rules,
        ),
        place=place(queue, priority=new.priority, deadline=deadline, due=due),
        edges=edges,
    )


def is_named(new: NewTask) -> bool:
    """Whether the caller knows the task's id, as such or by its key: then it may have been submitted before."""
    return new.key is not None or new.id is not None


def check_priority(priority: int) -> None:
    """Refuse a priority so large that it would not fit into a place."""
    if type(priority) is not int or not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidTask(
            f"priority={shown(priority)} is not taken; give a whole number from -{MAX_PRIORITY:,} to {MAX_PRIORITY:,}"
        )


def begins(draft: Draft, batch: Mapping[TaskId, NewTask]) -> bool:
    """Whether a task is a root of its workflow as far as a seal goes: nothing before it in its batch waits for it.

    A prerequisite of an earlier batch may have run before the workflow was opened, so it does not count.
    """
    return not any(above in batch and batch[above].workflow is not None for above in draft.prerequisites)


def in_scope(new: NewTask, tenant: str, workflow: str | None) -> bool:
    """Whether a task may wait for one of this tenant and workflow: its own workflow's, or one that stands alone."""
    return tenant == new.tenant and (workflow is None or workflow == new.workflow)


def _draft(new: NewTask, now: Micros, random: Callable[[], int]) -> Draft:
    _check_fields(new)
    if type(new.on_failure) is not OnFailure:
        new = replace(new, on_failure=_policy(new.on_failure))
    prerequisites, by_key = _prerequisites(new) if new.prerequisites else ((), frozenset[TaskId]())
    id = new.id or (fresh_id(now, random()) if new.key is None else keyed_id(new.tenant, new.workflow, new.key))
    check_fan_in(new.key or id, prerequisites)
    return Draft(
        id=id,
        new=new,
        args=encode_args(new.args),
        rules=_rules(new),
        prerequisites=prerequisites,
        by_key=by_key,
        fingerprint=None if new.key is None else _fingerprint(new, prerequisites),
    )


def _check_fields(new: NewTask) -> None:
    if new.id is not None:
        _check_id(new)
    check_name("handler", new.handler)
    check_name("queue", new.queue)
    check_name("tenant", new.tenant)
    if new.key is not None:
        check_text("key", new.key)
    if new.workflow is not None:
        check_text("workflow", new.workflow)
    check_priority(new.priority)
    if not 1 <= new.slots <= 1_000:
        raise InvalidTask(f"slots={new.slots} is out of range; give 1 to 1000")
    if new.delay is not None and new.at is not None:
        raise InvalidTask("delay and at are both given; give one of them")


def _check_id(new: NewTask) -> None:
    """Of version 7 alone: nobody else makes the same one by chance, and none can be taken for that of a key."""
    if not isinstance(new.id, UUID) or new.id.version != 7:
        raise InvalidTask(f"id={shown(new.id)} is not a version 7 UUID; leave it out, or give key= instead")
    if new.key is not None:
        raise InvalidTask(f"id={shown(new.id)} and key={shown(new.key)} are both given; give one of them")


def _policy(name: object) -> OnFailure:
    try:
        return OnFailure(name)
    except ValueError:
        raise InvalidTask(f"on_failure={shown(name)} is not known; give cancel or run") from None


def _prerequisites(new: NewTask) -> tuple[tuple[TaskId, ...], frozenset[TaskId]]:
    """All of them, each once; and those that were named by key."""
    named: dict[TaskId, bool] = {}
    for name in new.prerequisites:
        if isinstance(name, UUID):
            named.setdefault(TaskId(name), False)
        else:
            check_text("prerequisites", name)
            named[keyed_id(new.tenant, new.workflow, str(name))] = True
    return tuple(named), frozenset(id for id, by_key in named.items() if by_key)


def _rules(new: NewTask) -> Rules:
    if _has_default_rules(new):
        return _DEFAULT_RULES
    rules = Rules(
        retry=new.retry,
        max_crashes=_DEFAULT_RULES.max_crashes if new.max_crashes is None else new.max_crashes,
        at_most_once=new.at_most_once,
        timeout=new.timeout,
        soft_timeout=new.soft_timeout,
        heartbeat_timeout=new.heartbeat_timeout,
        slots=new.slots,
        requires=new.requires,
        downstream=new.downstream,
        trace=new.trace,
    )
    rules.retry.check()
    _check_crashes(new.max_crashes, new.at_most_once)
    if new.at_most_once:
        if new.retry != _DEFAULT_RETRY:
            check_once(new.retry)
        rules = replace(rules, retry=Retry(retries=0), max_crashes=0)
    for field in ("timeout", "soft_timeout", "heartbeat_timeout"):
        limit: object = getattr(rules, field)
        if limit is not None and not (isinstance(limit, timedelta) and limit > timedelta(0)):
            raise InvalidTask(f"{field}={shown(limit)} is not a time limit; give a timedelta of more than zero")
    for tag in rules.requires:
        check_name("requires", tag)
    if rules.downstream is not None:
        check_name("downstream", rules.downstream)
    if rules.trace is not None:
        check_text("trace", rules.trace)
    return rules


def _check_crashes(most: object, once: object) -> None:
    if not isinstance(once, bool):
        raise InvalidTask(f"at_most_once={shown(once)} is not a truth value; give True or False")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= MAX_CRASHES):
        raise InvalidTask(f"max_crashes={shown(most)} is not a number of crashes; give 0 to {MAX_CRASHES}")
    if once and most:
        raise InvalidTask(f"max_crashes={most} and at_most_once=True contradict each other; leave out one of them")


def check_once(retry: Retry) -> None:
    """Refuse a retry policy that would run a task again which must run at most once."""
    most = max(retry.retries, *(rule.retries or 0 for rule in retry.rules), 0)
    if most:
        raise InvalidTask(f"retries={most} and at_most_once=True contradict each other; leave out one of them")


def _has_default_rules(new: NewTask) -> bool:
    """Nearly every task has; then nothing is made, compared or stored."""
    return (
        new.retry is _DEFAULT_RETRY
        and new.max_crashes is None
        and new.at_most_once is False
        and new.timeout is None
        and new.soft_timeout is None
        and new.heartbeat_timeout is None
        and new.slots == 1
        and not new.requires
        and new.downstream is None
        and new.trace is None
    )


def _fingerprint(new: NewTask, prerequisites: Sequence[TaskId]) -> bytes:
    body = (new.handler, dict(new.args), new.queue, sorted(id.hex for id in prerequisites))
    return sha256(canonical(body)).digest()[:16]


def _due(new: NewTask, now: Micros) -> Micros | None:
    """When the caller wants it to run; None for at once."""
    due = when(new.delay if new.at is None else new.at, now, "delay" if new.at is None else "at")
    return due if due is not None and due > now else None


_rules_encoder = msgspec.json.Encoder()
_rules_decoder = msgspec.json.Decoder(Rules)


def encode_rules(rules: Rules) -> str | None:
    """Rules as a store keeps them: nothing at all when they are the defaults."""
    return None if rules is _DEFAULT_RULES or rules == _DEFAULT_RULES else _rules_encoder.encode(rules).decode()


def decode_rules(text: str | None) -> Rules:
    """The inverse of `encode_rules`."""
    return _DEFAULT_RULES if text is None else _rules_decoder.decode(text)

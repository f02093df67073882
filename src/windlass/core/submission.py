"""Turn a `NewTask` into a task that can be stored.

`draft` checks what the caller wrote and assigns ids. `initial_state` adds what the store knows: the queue's settings,
the current time and the states of prerequisites. Both are pure, so all stores accept and create the same tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.graph import End, check_fan_in, check_unique, find_any_cycle, unblock
from windlass.core.ids import fresh_id, keyed_id, unique_lock_id
from windlass.core.lifecycle import EXPIRED, State
from windlass.core.ordering import Place, Queue, place
from windlass.core.payload import canonical, encode_args
from windlass.core.retry import Retry
from windlass.core.task import NewTask, Rules, Task, TaskId
from windlass.core.times import Micros, when
from windlass.core.validation import check_batch, check_task, has_default_rules
from windlass.core.waits import BY_THE_STORE, end_of_wait, is_event
from windlass.errors import CycleFound, DuplicateTask, InvalidTask

MAX_BATCH = 100_000
CHUNK = 2_000
"""The number of tasks that are encoded and written at a time. A larger batch is checked first, keeping little more than
ids, and encoded again chunk by chunk, so that its arguments are never all in memory a second time."""
_DEFAULT_RULES = Rules()
_NO_RETRY = Retry(retries=0)
T = TypeVar("T")


class Urgency(NamedTuple):
    """What a task lends to its prerequisites (`core.urgency`)."""

    priority: int
    deadline: Micros | None

    def merge(self, other: Urgency) -> Urgency:
        """Return the higher priority and the earlier deadline of both."""
        deadlines = [one.deadline for one in (self, other) if one.deadline is not None]
        return Urgency(max(self.priority, other.priority), min(deadlines, default=None))


class Draft(Struct, frozen=True, kw_only=True, gc=False):
    """A checked task with its id, before the store has decided anything about it."""

    id: TaskId
    new: NewTask
    prerequisites: tuple[TaskId, ...]
    fingerprint: bytes | None
    """A hash of the task if it has a key. The same key with another fingerprint is a conflict."""
    lock: UUID | None = None
    """The lock of a unique task and all equal ones."""
    kept_args: str | None
    """The encoded arguments. None in a batch of more than `CHUNK` tasks, which encodes them again when it writes."""

    @property
    def args(self) -> str:
        """The arguments as JSON text."""
        return encode_args(self.new.args) if self.kept_args is None else self.kept_args

    @property
    def rules(self) -> Rules:
        """The part of the task that only the node reads."""
        return _rules(self.new)


class InitialState(Struct, frozen=True, kw_only=True, gc=False):
    """A task as the store first writes it."""

    task: Task
    place: Place
    edges: Sequence[tuple[UUID, bool]]
    """Everything it waits for, each with True if that has already ended."""


def draft(tasks: Sequence[NewTask], now: Micros, entropy: Callable[[int], Callable[[], int]]) -> list[Draft]:
    """Check a batch without looking at the store, and give every task its id.

    `entropy(n)` returns a source of n random numbers.
    """
    check_batch(tasks)
    if len(tasks) > MAX_BATCH:
        raise InvalidTask(
            f"{len(tasks):,} tasks in one batch; at most {MAX_BATCH:,} are allowed. Submit in parts, "
            "with an unsealed workflow if they belong together."
        )
    # Ids grow with the position in the batch, so that a batch is contiguous in every index.
    random = entropy(len(tasks))
    ids = _Ids()
    keep = len(tasks) <= CHUNK
    drafts: list[Draft] = []
    try:
        for nth, new in enumerate(tasks):
            drafts.append(_draft(new, now + nth, random, ids, keep=keep))
    except InvalidTask as error:
        if len(tasks) > 1:
            error.index = len(drafts)
            error.add_note(f"in tasks[{error.index}] of a batch of {len(tasks):,}")
        raise
    del ids
    _check_unique(drafts)
    if any(new.wait is not None for new in tasks):
        drafts = _wait_through_events(drafts)
    if not _is_in_order(drafts):
        _check_acyclic(drafts)
    return drafts


def chunks(sequence: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut a sequence into parts of at most `CHUNK`."""
    return (sequence[start : start + CHUNK] for start in range(0, len(sequence), CHUNK))


def _wait_through_events(drafts: Sequence[Draft]) -> list[Draft]:
    """Let tasks that wait for an event also wait for the prerequisites of that event.

    An event can be set before its step exists. The step is then complete whatever its prerequisites, but what comes
    after it must still come after them.
    """
    above = {one.id: one.prerequisites for one in drafts if is_event(one.new.wait)}
    if not any(above.values()):
        return list(drafts)
    return [_after_all(one, above) if any(id in above for id in one.prerequisites) else one for one in drafts]


def _after_all(one: Draft, above: Mapping[TaskId, Sequence[TaskId]]) -> Draft:
    found = list(one.prerequisites)
    seen = set(found)
    for id in found:  # It grows in the loop.
        more = [other for other in above.get(id, ()) if other not in seen]
        seen.update(more)
        found += more
    check_fan_in(one.new.key or one.id, found)
    return msgspec.structs.replace(one, prerequisites=tuple(found))


def _is_in_order(drafts: Sequence[Draft]) -> bool:
    """Return True if no task waits for itself or for a later one of its batch. Such a batch has no cycle."""
    seen: set[TaskId] = set()
    later: set[TaskId] = set()
    for draft in drafts if any(draft.prerequisites for draft in drafts) else ():
        later.update(above for above in draft.prerequisites if above not in seen)
        if draft.id in later:
            return False
        seen.add(draft.id)
    return True


def _check_unique(drafts: Sequence[Draft]) -> None:
    try:
        check_unique([draft.id for draft in drafts if is_named(draft.new)])
    except DuplicateTask as error:
        raise DuplicateTask(_names(drafts, error.ids)) from None


def _check_acyclic(drafts: Sequence[Draft]) -> None:
    cycle = find_any_cycle({draft.id: draft.prerequisites for draft in drafts})
    if cycle:
        raise CycleFound(_names(drafts, cycle))


def _names(drafts: Sequence[Draft], ids: Sequence[object]) -> list[object]:
    """Name these tasks of a batch as the caller did: by key, or by the id that the caller gave."""
    keys = {draft.id: draft.new.key for draft in drafts}
    return [keys[TaskId(id)] or id for id in ids if isinstance(id, UUID)]


def initial_state(
    draft: Draft,
    queue: Queue,
    now: Micros,
    nth: int,
    ends: Mapping[UUID, End],
    also_waits_for: Iterable[UUID] = (),
    lent: Urgency | None = None,
) -> InitialState:
    """Return a draft's first state and place. `ends` has the prerequisites that have ended; all others are open.

    `nth` is the position in the batch. The task is due that many microseconds later, so that a batch keeps its order.
    `lent` is the urgency of the tasks that wait for it.
    """
    new = draft.new
    edges = [(above, above in ends) for above in (*draft.prerequisites, *also_waits_for)]
    first_due = _due(new, now)
    due = (now if first_due is None else first_due) + nth
    priority, deadline = new.priority, when(new.deadline, now, "deadline")
    if lent is not None:
        priority, deadline = lent.merge(Urgency(priority, deadline))
    expires = when(new.expires, now, "expires")
    state, waiting, reason = State.RUNNABLE if first_due is None else State.SCHEDULED, 0, None
    wait = new.wait
    if wait is not None:
        due = end_of_wait(wait, when(new.at, now, "at"), now)
        state = State.COMPLETED if wait.is_set else State.SCHEDULED
    if edges:
        ended = [(above, ends[above]) for above in draft.prerequisites if above in ends]
        state, waiting, reason, _ = unblock(
            State.WAITING, len(edges), new.on_failure, ended, due=due if wait else first_due or now, now=now, wait=wait
        )
    if not state.final and expires is not None and expires <= now:
        state, reason = State.EXPIRED, EXPIRED
    task = Task(
        id=draft.id,
        handler=new.handler,
        args=draft.args,
        state=state,
        queue=new.queue,
        tenant=new.tenant,
        workflow=new.workflow,
        key=new.key,
        priority=priority,
        deadline=deadline,
        due=due,
        expires=expires,
        submitted=now,
        finished=now if state.final else None,
        waiting=waiting,
        on_failure=new.on_failure,
        reason=reason,
        rules=draft.rules,
        wait=wait,
    )
    if state is State.COMPLETED and wait is not None:
        task = msgspec.structs.replace(task, claimed=now, result=wait.value, **BY_THE_STORE)
    return InitialState(task=task, place=place(queue, priority=priority, deadline=deadline, due=due), edges=edges)


def is_named(new: NewTask) -> bool:
    """Return True if the caller gave an id or a key: the task may have been submitted before."""
    return new.key is not None or new.id is not None


class _Ids:
    """A cache of the ids of keys in one batch: a task's key is often a prerequisite of other tasks."""

    def __init__(self) -> None:
        self._by_scope: dict[tuple[str, str | None], dict[str, TaskId]] = {}

    def of(self, new: NewTask, key: str) -> TaskId:
        """Return the id of a key in the tenant and workflow of this task."""
        scope = new.tenant, new.workflow
        known = self._by_scope.get(scope)
        if known is None:
            known = self._by_scope[scope] = {}
        id = known.get(key)
        if id is None:
            id = known[key] = keyed_id(new.tenant, new.workflow, key)
        return id


def _draft(new: NewTask, now: Micros, random: Callable[[], int], ids: _Ids, *, keep: bool) -> Draft:
    new = check_task(new, now)
    prerequisites = _prerequisites(new, ids) if new.prerequisites else ()
    id = new.id or (fresh_id(now, random()) if new.key is None else ids.of(new, new.key))
    check_fan_in(new.key or id, prerequisites)
    args = encode_args(new.args)
    lock = None
    if new.unique is not None:
        lock = _lock(new)
        if new.unique.debounce is not None:
            new = replace(new, delay=new.unique.debounce)
    return Draft(
        id=id,
        new=new,
        prerequisites=prerequisites,
        fingerprint=None if new.key is None else _fingerprint(new, prerequisites),
        lock=lock,
        kept_args=args if keep else None,
    )


def _prerequisites(new: NewTask, ids: _Ids) -> tuple[TaskId, ...]:
    """Return the ids of all prerequisites, each once."""
    found = [TaskId(name) if isinstance(name, UUID) else ids.of(new, name) for name in new.prerequisites]
    return tuple(found if len(found) == 1 else dict.fromkeys(found))


def _rules(new: NewTask) -> Rules:
    if has_default_rules(new):
        return _DEFAULT_RULES
    return Rules(
        retry=_NO_RETRY if new.at_most_once else new.retry,
        max_crashes=_max_crashes(new),
        at_most_once=new.at_most_once,
        timeout=new.timeout,
        soft_timeout=new.soft_timeout,
        heartbeat_timeout=new.heartbeat_timeout,
        slots=new.slots,
        memory=new.memory,
        requires=new.requires,
        downstream=new.downstream,
        limit=new.limit,
        max_running=new.max_running,
        rate=new.rate,
        trace=new.trace,
        origin=new.origin,
    )


def _max_crashes(new: NewTask) -> int:
    if new.at_most_once:
        return 0
    return _DEFAULT_RULES.max_crashes if new.max_crashes is None else new.max_crashes


def _lock(new: NewTask) -> UUID:
    key = None if new.unique is None else new.unique.key
    # A key and arguments cannot be mistaken for each other: the arguments are a JSON object, and a key has a prefix.
    text = canonical(dict(new.args)).decode() if key is None else f"key:{key}"
    return unique_lock_id(new.tenant, new.queue, new.handler, text)


def _fingerprint(new: NewTask, prerequisites: Sequence[TaskId]) -> bytes:
    # An event is the same whatever its timeout and prerequisites, because it may be set before its step exists.
    if is_event(new.wait):
        return sha256(canonical((new.handler, new.key))).digest()[:16]
    body = (new.handler, dict(new.args), new.queue, sorted(id.hex for id in prerequisites))
    return sha256(canonical(body)).digest()[:16]


def _due(new: NewTask, now: Micros) -> Micros | None:
    """Return when the caller wants the task to run; None for now."""
    due = when(new.delay if new.at is None else new.at, now, "delay" if new.at is None else "at")
    return due if due is not None and due > now else None


DAMAGED_RULES = Rules(retry=_NO_RETRY, max_crashes=0, at_most_once=True)
"""What applies to a task whose stored rules cannot be read: the most careful rules, so that it runs at most once."""

_rules_encoder = msgspec.json.Encoder()
_rules_decoder = msgspec.json.Decoder(Rules)


def encode_rules(rules: Rules) -> str | None:
    """Encode rules as a store keeps them: None for the defaults."""
    return None if rules is _DEFAULT_RULES or rules == _DEFAULT_RULES else _rules_encoder.encode(rules).decode()


def decode_rules(text: str | None) -> Rules:
    """Decode rules that `encode_rules` encoded.

    Damaged text becomes `DAMAGED_RULES`: one such row must not make a claim or a list fail.
    """
    try:
        return _DEFAULT_RULES if text is None else _rules_decoder.decode(text)
    except (msgspec.DecodeError, TypeError):
        return DAMAGED_RULES

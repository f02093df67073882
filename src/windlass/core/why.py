"""Explain why a task does not run, as a list of gates in the order in which a task passes them.

Each gate says whether it is open, what it looked at, and what would open it. The first closed gate is the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from shlex import quote

from msgspec import Struct

from windlass.core.breaker import Breaker, BreakerState, sentence
from windlass.core.fairness import SetBy
from windlass.core.forecast import Forecast
from windlass.core.lifecycle import State
from windlass.core.limit_text import describe_amounts, describe_author, describe_scope, describe_use, format_moment
from windlass.core.limits import Limit, LimitUse
from windlass.core.ordering import Queue
from windlass.core.serving import Serves
from windlass.core.shares import Share
from windlass.core.task import Task, TaskId, Wait
from windlass.core.times import LATEST, Micros, to_datetime

NO_BREAKERS: Mapping[str, Breaker] = {}
NO_POOLS: Mapping[str, str] = {}


class Gate(Struct, frozen=True, kw_only=True):
    """One condition that must be met before the task runs."""

    name: str
    open: bool
    text: str
    fix: str | None = None
    """How to open it, if that is possible."""


class Prerequisite(Struct, frozen=True):
    """A task that another one waits for. `state` is None until it is submitted."""

    id: TaskId
    state: State | None
    resolved: bool
    """True once the store has processed its end for the task that waits."""
    event: str | None = None
    """The event that it waits for."""


class Serving(Struct, frozen=True):
    """A live node and the tasks that it can run. None stands for anything the node does not report."""

    node: str
    queues: frozenset[str] | None = None
    slots: Mapping[str, int] | None = None
    """The number of slots of a worker, by queue."""
    tags: frozenset[str] | None = None
    handlers: frozenset[str] | None = None
    pools: Mapping[str, frozenset[str]] | None = None
    """The queues that each of its pools serves."""
    merged: frozenset[str] = frozenset()
    """Its pools that order tasks by deadline across all their queues."""
    memory: Mapping[str, int] | None = None
    """The bytes of memory for tasks, by queue, if it is limited."""

    def lacks(self, task: Task) -> str:
        """Return what the task needs and the node lacks, except the queue; empty if the node can run it."""
        slots = None if self.slots is None else self.slots.get(task.queue)
        memory = None if self.memory is None else self.memory.get(task.queue)
        serves = Serves(handlers=self.handlers, labels=self.tags, slots=slots, memory=memory)
        return serves.lacks(task.handler, task.rules)


class FairTurn(Struct, frozen=True, kw_only=True):
    """Where the tenant of a task is among those that have tasks in a fair queue."""

    before: int
    """How many of them come first."""
    tenants: int
    """How many others there are."""
    share: Share
    """What the tenant should get and got in the last minute."""


class Why(Struct, frozen=True, kw_only=True):
    """The explanation of one task. `str(why)` is readable text."""

    task: Task
    gates: tuple[Gate, ...]
    outlook: Forecast | None = None
    """When the task will start, if it only waits for its turn and its pool has been measured."""

    @property
    def closed(self) -> Gate | None:
        """The first closed gate; None if nothing blocks the task."""
        return next((gate for gate in self.gates if not gate.open), None)

    def __str__(self) -> str:
        task = self.task
        lines = [f"{task.handler} · {task.id} · queue {task.queue} · tenant {task.tenant} · {task.state.value}"]
        for gate in self.gates:
            here = "●" if gate is self.closed else "✓" if gate.open else "○"
            lines.append(f"  {here} {gate.name}: {gate.text}")
        if self.outlook is not None:
            lines.append(f"  {self.outlook}")
        if self.closed is not None and self.closed.fix is not None:
            lines.append(f"  fix: {self.closed.fix}")
        return "\n".join(lines)


def gates(
    task: Task,
    *,
    queue: Queue | None,
    prerequisites: Sequence[Prerequisite],
    handlers: Collection[str],
    serving: Sequence[Serving],
    breakers: Mapping[str, Breaker] = NO_BREAKERS,
    stopped: Mapping[str, str] = NO_POOLS,
    pause: SetBy | None = None,
    limits: Sequence[LimitUse] = (),
    uncounted: Collection[str] = (),
    turn: FairTurn | None = None,
    in_sight: bool = True,
    now: Micros | None = None,
) -> tuple[Gate, ...]:
    """Return the gates of a task, in order. `stopped` maps each pool of size 0 to the reason.

    `pause` is that of the tenant. `limits` are those that apply to the task; of those named in `uncounted`, the reader
    may not see what is used. `in_sight` is False if the task is stored where no claim looks for it. A task that is
    due at `now` waits only for a sweep, which every live node makes: what keeps it from running is then named first.
    """
    if task.state.final:
        return (_ended(task),)
    if task.state is State.LEASED:
        return (_running(task),)
    if task.wait is not None:
        return (_prerequisites(task, prerequisites), *_wait(task, task.wait))
    overdue = now is not None and task.state in (State.SCHEDULED, State.RETRYING) and task.due <= now
    return (
        _prerequisites(task, prerequisites),
        *(() if overdue else (_due(task),)),
        *(() if in_sight else (_OUT_OF_SIGHT,)),
        _queue(task, queue),
        *_tenant(task, pause),
        *(_limit(use, counted=use.limit.name not in uncounted) for use in limits),
        *_downstream(task, breakers),
        _handler(task, handlers),
        _node(task, serving),
        *_pool(task, serving, stopped),
        _turn(task, serving) if queue is None or not queue.fair else _fair_turn(task, turn),
        *((_overdue(task),) if overdue else ()),
    )


_OUT_OF_SIGHT = Gate(
    name="store",
    open=False,
    text="stored where no claim looks for it: the database is damaged",
    fix="keep a node running, its sweep repairs this; `windlass db check` lists all such tasks",
)


def _ended(task: Task) -> Gate:
    if task.state is State.COMPLETED:
        return Gate(name="end", open=False, text="completed")
    return Gate(
        name="end",
        open=False,
        text=f"{task.state.value}: {task.reason or 'no reason recorded'}",
        fix=f"windlass tasks retry {task.id}",
    )


def _running(task: Task) -> Gate:
    since = "" if task.claimed is None else f" since {to_datetime(task.claimed):%Y-%m-%d %H:%M:%S} UTC"
    asked = "; it was asked to stop" if task.cancel_requested else ""
    return Gate(name="lease", open=True, text=f"running attempt {task.attempts + 1}{since}{asked}")


def _prerequisites(task: Task, prerequisites: Sequence[Prerequisite]) -> Gate:
    if task.state is not State.WAITING:
        return Gate(name="prerequisites", open=True, text="none is open")
    still = [each for each in prerequisites if each.state is None or not each.state.final]
    if not still:
        ended = [str(each.id) for each in prerequisites if not each.resolved]
        if not ended:
            return Gate(name="prerequisites", open=False, text="the workflow is not sealed", fix="seal the workflow")
        return Gate(
            name="prerequisites",
            open=False,
            text=f"{ended[0]}{f' and {len(ended) - 1} more' * (len(ended) > 1)} ended, which is not processed yet",
            fix="keep a node running: it processes the ends of prerequisites",
        )
    shown = ", ".join(map(_name_prerequisite, still[:3]))
    more = f" and {len(still) - 3} more" if len(still) > 3 else ""
    return Gate(
        name="prerequisites",
        open=False,
        text=f"{task.waiting} open: {shown}{more}",
        fix=f"windlass why {still[0].id}",
    )


def _wait(task: Task, wait: Wait) -> tuple[Gate, ...]:
    """Return the gate of a step that runs no handler, once it waits."""
    if task.state is State.WAITING:
        return ()
    if wait.event is None:
        text = f"sleeps until {format_moment(task.due)}"
        return (Gate(name="sleep", open=False, text=text, fix="update its due time (at)"),)
    until = "without a time limit" if task.due >= LATEST else f"times out at {format_moment(task.due)}"
    return (
        Gate(
            name="event",
            open=False,
            text=f"waits for event {wait.event} of workflow {task.workflow}, {until}",
            fix=f"windlass workflows signal {quote(task.workflow or '')} {wait.event}",
        ),
    )


def _name_prerequisite(each: Prerequisite) -> str:
    if each.event is not None:
        return f"{each.id} (waits for event {each.event})"
    return f"{each.id} ({'not submitted' if each.state is None else each.state})"


def _due(task: Task) -> Gate:
    moment = format_moment(task.due)
    if task.state is State.SCHEDULED:
        return Gate(name="due", open=False, text=f"not before {moment}", fix="update its due time (at)")
    if task.state is State.RETRYING:
        text = f"attempt {task.attempts} failed; the next one is due at {moment}"
        return Gate(name="due", open=False, text=text, fix="update its due time (at)")
    return Gate(name="due", open=True, text=f"due since {moment}")


def _overdue(task: Task) -> Gate:
    """Return the gate of a task that is due, but not yet runnable."""
    text = f"due since {format_moment(task.due)}; the next sweep of a node makes it runnable"
    return Gate(name="sweep", open=False, text=text, fix="keep a node running, it sweeps")


def _queue(task: Task, queue: Queue | None) -> Gate:
    if queue is None or not queue.paused:
        return Gate(name="queue", open=True, text=f"{task.queue} is not paused")
    by = f" by {queue.paused_by}" if queue.paused_by else ""
    until = "" if queue.paused_until is None else f" until {format_moment(queue.paused_until)}"
    reason = f': "{queue.paused_why}"' if queue.paused_why else ""
    fix = f"windlass queues resume {task.queue}"
    return Gate(name="queue", open=False, text=f"{task.queue} is paused{by}{until}{reason}", fix=fix)


def _tenant(task: Task, pause: SetBy | None) -> tuple[Gate, ...]:
    """Return the gate of the task's tenant, if it is paused."""
    if pause is None:
        return ()
    text = f"{task.tenant} is paused{describe_author(pause)}"
    return (Gate(name="tenant", open=False, text=text, fix=f"windlass tenants resume {task.tenant}"),)


def _limit(use: LimitUse, *, counted: bool) -> Gate:
    """Return the gate of a limit that applies to the task."""
    limit = use.limit
    full = "no more may start" if use.blocks else "more may start"
    used = describe_use(use) if counted else f"{describe_amounts(limit)}, {full}"
    author = "; declared by the task" if limit.set_by is None else f"; set{describe_author(limit.set_by)}"
    fix = None if not use.blocks else _raise(limit)
    return Gate(name="limit", open=not use.blocks, text=f"{describe_scope(limit)}: {used}{author}", fix=fix)


def _raise(limit: Limit) -> str:
    """Return the command that removes a limit, or sets another one than a task declares."""
    fields = {"queue": limit.queue, "tenant": limit.tenant, "handler": limit.handler, "limit-key": limit.key}
    scope = "".join(f" --{field} {quote(value)}" for field, value in fields.items() if value is not None)
    if limit.set_by is not None:
        return f"windlass limits rm{scope}"
    amounts = "" if limit.max_running is None else f" --max-running {limit.max_running + 1}"
    return f"windlass limits set{scope}{amounts}" + ("" if limit.rate is None else " --max-rate N/TIME")


def _downstream(task: Task, breakers: Mapping[str, Breaker]) -> tuple[Gate, ...]:
    """Return the gate of the task's downstream, if it names one."""
    name = task.rules.downstream
    if name is None:
        return ()
    breaker = breakers.get(name, Breaker())
    if breaker.state is BreakerState.CLOSED:
        return (Gate(name="downstream", open=True, text=f"the breaker of {name} is closed"),)
    # The state as stored. Whether its time is over is up to the store's clock; the text names that time.
    text = sentence(name, breaker, breaker.since)
    then = "; then it lets a few probes run" if breaker.state is BreakerState.OPEN else "; only a few probes may run"
    return (Gate(name="downstream", open=False, text=text + then, fix=f"windlass breaker close {name}"),)


def _handler(task: Task, handlers: Collection[str]) -> Gate:
    if task.handler in handlers:
        return Gate(name="handler", open=True, text=f"{task.handler} is registered")
    return Gate(
        name="handler",
        open=False,
        text=f"no node has ever registered the handler {task.handler}",
        fix="start a worker whose app registers it, or fix the handler name",
    )


def _node(task: Task, serving: Sequence[Serving]) -> Gate:
    if not serving:
        return Gate(name="node", open=False, text="no node is alive", fix=_command(task))
    here = [each for each in serving if each.queues is None or task.queue in each.queues]
    able = [each.node for each in here if not each.lacks(task)]
    if able:
        return Gate(name="node", open=True, text=f"served by {', '.join(able[:3])}")
    text = f"{_none_of(serving, 'live node')} serves the queue {task.queue}"
    if here:
        lacking = "; ".join(f"{each.node} {each.lacks(task)}" for each in here[:3])
        text = f"{_none_of(here, f'live node that serves the queue {task.queue}')} can run it: {lacking}"
    return Gate(name="node", open=False, text=text, fix=_command(task))


def _none_of(nodes: Sequence[Serving], what: str) -> str:
    return f"no {what}" if len(nodes) == 1 else f"no {what} (of {len(nodes):,})"


def _pool(task: Task, serving: Sequence[Serving], stopped: Mapping[str, str]) -> tuple[Gate, ...]:
    """Return the gate of the pools that serve the queue, if any node reports its pools."""
    able = [each for each in serving if not each.lacks(task)]
    pools = {name for each in able for name, queues in (each.pools or {}).items() if task.queue in queues}
    if not pools:
        return ()
    running = sorted(pools - stopped.keys())
    if running:
        return (Gate(name="pool", open=True, text=f"workers in {', '.join(running[:3])}"),)
    name = min(pools)
    text = f"{name} has no workers: {stopped[name]}"
    return (Gate(name="pool", open=False, text=text, fix=f"windlass pool resume {name}"),)


def _turn(task: Task, serving: Sequence[Serving]) -> Gate:
    """Return the gate that says what must run first: order holds within a queue, or across those of a merged pool."""
    here = [
        (name in each.merged, len(queues))
        for each in serving
        for name, queues in (each.pools or {}).items()
        if task.queue in queues
    ]
    text = "runs after the tasks ahead of it in its queue"
    if any(merged for merged, _ in here):
        text = "runs after the tasks with earlier deadlines in all queues of its pool"
    elif any(queues > 1 for _, queues in here):
        text += "; its pool serves several queues, so tasks of other queues may run first"
    return Gate(name="turn", open=True, text=text)


def _fair_turn(task: Task, turn: FairTurn | None) -> Gate:
    """Return the gate of a fair queue, which says how many tenants come first."""
    text = f"tenants take turns in the fair queue {task.queue}"
    if turn is not None:
        got = "" if turn.share.got is None else f" and got {turn.share.got:.0%} in the last minute"
        text += f": {task.tenant} comes after {turn.before:,} of {turn.tenants:,} other tenants with tasks"
        text += f", is due {turn.share.due:.0%}{got}"
    return Gate(name="turn", open=True, text=f"{text}; within a tenant, the strategy of the queue decides")


def _command(task: Task) -> str:
    """Return the command that starts a node that can run the task."""
    tags = "".join(f" --tag {tag}" for tag in task.rules.requires)
    threads = f" --threads {task.rules.slots}" if task.rules.slots > 1 else ""
    return f"windlass worker APP --queues {task.queue}{tags}{threads}"

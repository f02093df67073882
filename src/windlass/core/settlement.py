"""What a finished attempt does to its task.

An attempt ends in one `Outcome`; `settle` turns it into a `Settlement`; a store writes that under the attempt's lease,
and on the way `conclude` holds it against what only the store knows. All three are pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.lifecycle import EXPIRED, State
from windlass.core.retry import Error, storable
from windlass.core.task import Task
from windlass.core.times import LATEST, Micros

MAX_LOSSES = 10
"""A task whose node was lost this often goes to the dead letters too: it may be what kills nodes."""


AT_MOST_ONCE = "at most once, and it may have begun"
"""How the reason of a task begins that failed because it must not run a second time."""


class Returned(Struct, frozen=True):
    """The handler came back; `result` is JSON text, or None for nothing."""

    result: str | None = None


class Raised(Struct, frozen=True):
    """The handler raised, or overran its time limit. `retry_in` is the handler's own wish (`RetryIn`)."""

    error: Error
    retry_in: Micros | None = None
    give_up: bool = False


class Crashed(Struct, frozen=True):
    """The worker process died under the attempt."""

    error: Error


class Released(Struct, frozen=True):
    """The attempt was not started, or was given back unharmed; nothing is charged."""

    delay: Micros = 0


class Lost(Struct, frozen=True):
    """The node's session ran out. Only the sweep says so."""


class Stopped(Struct, frozen=True):
    """The attempt was stopped because the task was cancelled or expired."""

    state: State
    reason: str = ""


Outcome: TypeAlias = Returned | Raised | Crashed | Released | Lost | Stopped


class Settlement(Struct, frozen=True, kw_only=True, gc=False):
    """What one finished attempt does to its task, decided by `settle` and written under the attempt's lease."""

    state: State
    delay: Micros = 0
    """For retrying and scheduled: how long after the store's present moment the task is due again."""
    result: str | None = None
    error: Error | None = None
    reason: str | None = None
    attempts: int = 0
    """How much is added to each of the three counters."""
    crashes: int = 0
    losses: int = 0
    log: str | None = None
    """What the handler printed during the attempt."""

    @property
    def charged(self) -> bool:
        """Whether the attempt counts at all, and so is kept in the task's history. A release does not."""
        return bool(self.attempts or self.crashes or self.losses)

    @property
    def plain(self) -> bool:
        """Whether it is the plain good end, on which of all the store knows only a cancel request bears."""
        return self.state is State.COMPLETED and self.attempts == 1 and self.error is None and self.reason is None


COMPLETED = Settlement(state=State.COMPLETED, attempts=1)
"""The plain good end, without a result."""

RELEASED = Settlement(state=State.RUNNABLE)
"""Given back unharmed, at once and free of charge."""


def settle(task: Task, outcome: Outcome, random: Callable[[], float]) -> Settlement:
    """Decide what one finished attempt does to its task. Whoever writes it must still hold the lease."""
    match outcome:
        case Returned(result):
            return Settlement(state=State.COMPLETED, result=result, attempts=1)
        case Raised(error, retry_in, give_up):
            delay = None if give_up else task.rules.retry.next_delay(task.attempts + 1, error, random, retry_in)
            if delay is None:
                return Settlement(state=State.FAILED, error=error, reason=_because(error), attempts=1)
            return Settlement(state=State.RETRYING, delay=delay, error=error, attempts=1)
        case Crashed(error):
            crashes = task.crashes + 1
            if task.rules.at_most_once:
                reason = f"{AT_MOST_ONCE}: its process died ({error.kind})"
            elif crashes > task.rules.max_crashes:
                reason = f"poison: its process died {crashes} time{'s' if crashes > 1 else ''} ({error.kind})"
            else:
                return Settlement(state=State.RUNNABLE, error=error, crashes=1)
            return Settlement(state=State.FAILED, error=error, reason=reason, crashes=1)
        case Released(delay):
            return Settlement(state=State.SCHEDULED if delay > 0 else State.RUNNABLE, delay=delay)
        case Lost():
            return lost(task.losses, at_most_once=task.rules.at_most_once)
        case Stopped(state, reason):
            return Settlement(state=state, reason=reason, attempts=1)
        case _:
            assert_never(outcome)


def lost(losses: int, *, at_most_once: bool = False) -> Settlement:
    """What the loss of its node does to a task that had lost `losses` before."""
    error = Error(kind="NodeLost", message="the node's session ran out during the attempt")
    if at_most_once:
        return Settlement(state=State.FAILED, error=error, reason=f"{AT_MOST_ONCE}: its node was lost", losses=1)
    if losses + 1 >= MAX_LOSSES:
        reason = f"its node was lost {losses + 1} times"
        return Settlement(state=State.FAILED, error=error, reason=reason, losses=1)
    return Settlement(state=State.RUNNABLE, error=error, losses=1)


def let_go(*, at_most_once: bool = False) -> Settlement:
    """What the end of its session does to a task that the session still held: nobody says whether it was begun."""
    if not at_most_once:
        return RELEASED
    error = Error(kind="SessionClosed", message="the session was closed while it held the task")
    return Settlement(state=State.FAILED, error=error, reason=f"{AT_MOST_ONCE}: its session was closed", losses=1)


CANCEL_OVERDUE = Settlement(
    state=State.CANCELLED,
    error=Error(kind="Cancelled", message="did not stop within the grace period"),
    attempts=1,
)
"""What the sweep does to a leased task whose cancel was not heeded in time."""


class AsStored(Protocol):
    """What the store knows of a leased task at the moment it writes the end of an attempt."""

    @property
    def state(self) -> State: ...
    @property
    def expires(self) -> Micros | None: ...
    @property
    def cancel_requested(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...


def apply_store_facts(task: AsStored, settlement: Settlement, now: Micros) -> Settlement:
    """Hold a settlement against what only the store knows when it writes: a cancel request, and the hard limit.

    What a handler said may be any text and any delay; what no database can hold is replaced, so that it is written.
    """
    if settlement.error is not None or settlement.reason is not None or settlement.log is not None:
        settlement = replace(
            settlement,
            error=settlement.error and settlement.error.storable(),
            reason=settlement.reason and storable(settlement.reason),
            log=settlement.log and storable(settlement.log),
        )
    if settlement.delay > LATEST - now:
        settlement = replace(settlement, delay=LATEST - now)
    if task.cancel_requested:
        return replace(settlement, state=State.CANCELLED, delay=0, result=None, reason=task.reason)
    # Due again after the hard limit, it would only be expired later by the sweep; say it now, with the error at hand.
    comes_back = not settlement.state.final
    if comes_back and task.expires is not None and now + settlement.delay >= task.expires:
        return replace(settlement, state=State.EXPIRED, delay=0, reason=EXPIRED)
    return settlement


def stands_already(task: AsStored, settlement: Settlement) -> bool:
    """Whether a report under the latest lease repeats what is written: the first answer was lost on its way.

    A task that is runnable again does not tell whether a release or the sweep made it so; either way it is no news.
    """
    return (
        task.state is settlement.state
        or (task.cancel_requested and task.state is State.CANCELLED)
        or (task.state is State.EXPIRED and not settlement.state.final)
    )


def _because(error: Error) -> str:
    return f"{error.kind}: {error.message}"[:500] if error.message else error.kind

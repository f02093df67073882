"""What a finished attempt does to its task.

An attempt ends with an `Outcome`, which `settle` turns into a `Settlement`. `apply_store_facts` adjusts it for what
only the store knows, and the store writes it under the attempt's lease. All of this is pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.fingerprint import error_group
from windlass.core.lifecycle import EXPIRED, State
from windlass.core.retry import Error, storable
from windlass.core.task import Added, Rules
from windlass.core.times import LATEST, Micros

MAX_LOSSES = 10
"""A task fails when its node was lost this often: it may be the task that kills nodes."""


AT_MOST_ONCE = "Not retried because at_most_once is set and the attempt may have started"
"""The start of the reason of a task that failed because it must not run twice."""


class Returned(Struct, frozen=True):
    """The handler returned. `result` is JSON text, or None."""

    result: str | None = None


class Continued(Struct, frozen=True):
    """The handler returned and added steps. With `added.then` the task continues after them; else it has `result`."""

    added: Added
    result: str | None = None


class Raised(Struct, frozen=True):
    """The handler raised or exceeded its time limit. `retry_in` is the delay that it asked for (`RetryIn`)."""

    error: Error
    retry_in: Micros | None = None
    give_up: bool = False


class Crashed(Struct, frozen=True):
    """The worker process died during the attempt."""

    error: Error


class Released(Struct, frozen=True):
    """The attempt did not start, or can safely run again. It does not count as an attempt."""

    delay: Micros = 0


class Lost(Struct, frozen=True):
    """The node's session expired. Only the sweep reports this."""


class Stopped(Struct, frozen=True):
    """The attempt was stopped because the task was cancelled or expired."""

    state: State
    reason: str = ""


Outcome: TypeAlias = Returned | Continued | Raised | Crashed | Released | Lost | Stopped


class Settlement(Struct, frozen=True, kw_only=True, gc=False):
    """What a finished attempt does to its task: decided by `settle`, written under the attempt's lease."""

    state: State
    delay: Micros = 0
    """For retrying and scheduled: how long after the store's current time the task is due."""
    result: str | None = None
    error: Error | None = None
    reason: str | None = None
    attempts: int = 0
    """What to add to each of the three counters."""
    crashes: int = 0
    losses: int = 0
    log: str | None = None
    """The output of the handler during the attempt."""
    ran: Micros | None = None
    """How long the handler ran. If it is not known, the time since the claim counts. 0 if it did not start."""
    error_group: str | None = None
    """The group of a failed task, once `add_error_group` has computed it."""
    added: Added | None = None
    """The steps to write with it, all or none. If they are refused, the attempt has failed (`refuse_steps`)."""
    retry_delay: Micros | None = None
    """After which delay the attempt is retried if its steps are refused; None for never."""

    @property
    def charged(self) -> bool:
        """True if the attempt counts and is kept in the task's history. A released one does not."""
        return bool(self.attempts or self.crashes or self.losses)

    def get_run_time(self, claimed: Micros, now: Micros) -> Micros:
        """Return how long the handler ran, for the account of its tenant."""
        if self.ran is not None:
            return self.ran
        return max(0, now - claimed) if self.charged else 0

    @property
    def plain(self) -> bool:
        """True if the attempt completed. Of the store's facts, only a pending cancel request can change that."""
        return (
            self.state is State.COMPLETED
            and self.attempts == 1
            and self.error is None
            and self.reason is None
            and self.added is None
        )


COMPLETED = Settlement(state=State.COMPLETED, attempts=1)
"""Completed without a result."""

RELEASED = Settlement(state=State.RUNNABLE)
"""Released: runnable again at once, and not counted as an attempt."""


_REFUSED = Error(kind="StepsRefused", message="the added steps were refused")
"""Stands for the error that the retry policy is asked about before the steps are written."""


class Attempted(Protocol):
    """A task or a claim, as it was before the attempt."""

    @property
    def rules(self) -> Rules: ...
    @property
    def attempts(self) -> int: ...
    @property
    def crashes(self) -> int: ...
    @property
    def losses(self) -> int: ...


def settle(task: Attempted, outcome: Outcome, random: Callable[[], float]) -> Settlement:
    """Decide what a finished attempt does to its task. It may be written only while the lease is valid."""
    match outcome:
        case Returned(result):
            return Settlement(state=State.COMPLETED, result=result, attempts=1)
        case Continued(added, result):
            state = State.COMPLETED if added.then is None else State.WAITING
            delay = task.rules.retry.next_delay(task.attempts + 1, _REFUSED, random, None)
            return Settlement(state=state, result=result, attempts=1, added=added, retry_delay=delay)
        case Raised(error, retry_in, give_up):
            delay = None if give_up else task.rules.retry.next_delay(task.attempts + 1, error, random, retry_in)
            if delay is None:
                return Settlement(state=State.FAILED, error=error, reason=_because(error), attempts=1)
            return Settlement(state=State.RETRYING, delay=delay, error=error, attempts=1)
        case Crashed(error):
            crashes = task.crashes + 1
            if task.rules.at_most_once:
                reason = f"{AT_MOST_ONCE}: its process died ({error.kind})."
            elif crashes > task.rules.max_crashes:
                reason = f"Its process died {crashes} time{'s' if crashes > 1 else ''} ({error.kind})."
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


def refuse_steps(settlement: Settlement, error: Exception) -> Settlement:
    """Return what happens to a task whose added steps were refused: its attempt has failed with this error."""
    refused = Error(kind=type(error).__name__, message=f"The added steps were refused: {error}")
    retried = settlement.retry_delay is not None
    return Settlement(
        state=State.RETRYING if retried else State.FAILED,
        delay=settlement.retry_delay or 0,
        error=refused,
        reason=None if retried else _because(refused),
        attempts=1,
        log=settlement.log,
        ran=settlement.ran,
    )


def lost(losses: int, *, at_most_once: bool = False) -> Settlement:
    """Return what the loss of its node does to a task that had already lost `losses` nodes."""
    error = Error(kind="NodeLost", message="the node's session expired during the attempt")
    if at_most_once:
        return Settlement(state=State.FAILED, error=error, reason=f"{AT_MOST_ONCE}: its node was lost.", losses=1)
    if losses + 1 >= MAX_LOSSES:
        reason = f"Its node was lost {losses + 1} times."
        return Settlement(state=State.FAILED, error=error, reason=reason, losses=1)
    return Settlement(state=State.RUNNABLE, error=error, losses=1)


def let_go(*, at_most_once: bool = False) -> Settlement:
    """Return what closing a session does to a task that it still holds. The attempt may or may not have started."""
    if not at_most_once:
        return RELEASED
    error = Error(kind="SessionClosed", message="the session was closed while it held the task")
    return Settlement(state=State.FAILED, error=error, reason=f"{AT_MOST_ONCE}: its session was closed.", losses=1)


CANCEL_OVERDUE = Settlement(
    state=State.CANCELLED,
    error=Error(kind="Cancelled", message="did not stop within the grace period"),
    attempts=1,
)
"""What the sweep does to a leased task that did not stop within the grace period of its cancel."""


def add_error_group(settlement: Settlement) -> Settlement:
    """Return a failed settlement with its error group. A traceback may be long, so call this before a transaction."""
    if settlement.state is not State.FAILED or settlement.error_group is not None:
        return settlement
    error, reason = settlement.error and settlement.error.storable(), settlement.reason and storable(settlement.reason)
    return replace(settlement, error_group=error_group(error, reason))


class AsStored(Protocol):
    """A leased task as stored when the end of its attempt is written."""

    @property
    def state(self) -> State: ...
    @property
    def expires(self) -> Micros | None: ...
    @property
    def cancel_requested(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...


def apply_store_facts(task: AsStored, settlement: Settlement, now: Micros) -> Settlement:
    """Adjust a settlement for what only the store knows when it writes: a cancel request and the expiry time.

    Text and delays from a handler that a database cannot store are replaced, so that the write never fails.
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
        return replace(settlement, state=State.CANCELLED, delay=0, result=None, reason=task.reason, added=None)
    # The retry would be due after the expiry time. Expire the task now, while the error is known.
    comes_back = not settlement.state.final
    if comes_back and task.expires is not None and now + settlement.delay >= task.expires:
        return replace(settlement, state=State.EXPIRED, delay=0, reason=EXPIRED, added=None)
    return settlement


def stands_already(task: AsStored, settlement: Settlement) -> bool:
    """Return True if a report under the latest lease repeats what is already written, because its answer was lost.

    For a task that is runnable again it does not matter whether a release or the sweep made it so.
    """
    return (
        task.state is settlement.state
        or (task.cancel_requested and task.state is State.CANCELLED)
        or (task.state is State.EXPIRED and not settlement.state.final)
    )


def _because(error: Error) -> str:
    return f"{error.kind}: {error.message}"[:500] if error.message else error.kind

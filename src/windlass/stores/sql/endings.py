"""The ends of attempts that one transaction writes in a SQL store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from windlass.core.continuation import Continuation
from windlass.core.graph import End
from windlass.core.lifecycle import State
from windlass.core.retry import storable
from windlass.core.settlement import Settlement, add_error_group, apply_store_facts
from windlass.core.task import Lease
from windlass.core.times import Micros
from windlass.stores.sql.database import Dialect, Transaction, Values
from windlass.stores.sql.ended_leases import record_ended
from windlass.stores.sql.graph import LEVELS, Dependents, Resolver
from windlass.stores.sql.rows import Counts, Row, stored, uuids

_error = msgspec.json.Encoder()


class Written(NamedTuple):
    """What a transaction that ended attempts has written."""

    wake: set[str]
    """The queues to wake up."""
    unresolved: Callable[[], list[UUID]]
    """Called after the commit, returns the ended tasks that have more edges to resolve."""


class Endings:
    """The ends of attempts that one transaction writes."""

    def __init__(self, now: Micros) -> None:
        self._now = now
        self._leases: list[Values] = []
        self._runs: dict[UUID, tuple[Micros, int]] = {}
        self._completed: list[Values] = []
        self._runnable: list[Values] = []
        self._settled: list[Values] = []
        self._attempts: list[Values] = []
        self._results: list[Values] = []
        self._final: list[Values] = []
        self._bumps: list[Values] = []
        self._logs: list[Values] = []
        self._continuations: list[Values] = []
        self._edges: list[Values] = []
        self.counts = Counts()
        self.repeated: list[UUID] = []
        """Tasks that had already ended with the same report. The first writer may not have resolved their edges."""

    def end(self, row: Row, settlement: Settlement, *, bump_fence: bool = False) -> Row:
        """Add the end of an attempt of a locked, leased task. Return the task after it."""
        end = apply_store_facts(row, add_error_group(settlement), self._now)
        state, final = end.state, end.state.final
        new = row._replace(
            state=state,
            due=row.due if final else self._now + end.delay,
            finished=self._now if final else None,
            attempts=row.attempts + end.attempts,
            crashes=row.crashes + end.crashes,
            losses=row.losses + end.losses,
            reason=end.reason,
            cancel_by=None,
        )
        self._leases.append((row.id,))
        self._runs[row.id] = end.get_run_time(row.claimed or self._now, self._now), int(end.charged)
        if state is State.COMPLETED:
            self._completed.append((row.id, row.fence, row.session, row.claimed, self._now))
        else:
            self._settled.append(
                (
                    row.id,
                    row.fence,
                    row.session,
                    row.claimed,
                    stored(state),
                    new.due,
                    new.finished,
                    new.attempts,
                    new.crashes,
                    new.losses,
                    new.reason,
                    end.error_group if state is State.FAILED else None,
                )
            )
        if state is State.RUNNABLE:
            self._runnable.append((row.id,))
        if end.charged and state is not State.COMPLETED:
            error = None if end.error is None else _error.encode(end.error).decode()
            self._attempts.append((row.id, row.fence, row.session, row.claimed, self._now, state.value, error))
        if end.result is not None:
            self._results.append((row.id, end.result))
        if end.log:
            self._logs.append((row.id, row.fence, end.log))
        if final:
            self._final.append((row.id, state.value))
        if bump_fence:
            self._bumps.append((row.id, row.fence + 1))
        self.counts.move(row, state)
        return new

    def continue_as(self, row: Row, continuation: Continuation, values: Values) -> None:
        """Add what a task continues as, whose end was added before. `values` is a row for its statement."""
        self._continuations.append(values)
        self._edges += [(row.id, above, ended) for above, ended in continuation.edges]
        self.counts.add(row.queue, row.tenant, row.state, -1)
        self.counts.add(continuation.then.new.queue, row.tenant, row.state)

    def add_completed(self, reports: Iterable[tuple[Lease, Settlement]]) -> None:
        """Add what belongs to attempts that `complete` has already written and counted."""
        for lease, settlement in reports:
            if settlement.result is not None:
                self._results.append((lease.task, settlement.result))
            if settlement.log:
                self._logs.append((lease.task, lease.fence, storable(settlement.log)))

    def write(
        self,
        db: Dialect,
        tx: Transaction,
        completed: Mapping[Any, End] | None = None,
        dependents: Dependents | None = None,
    ) -> Written:
        """Write everything and resolve edges: those of tasks that `complete` has ended too, and their dependents."""
        freed = self._write_ends(db, tx)
        resolver = Resolver(db, tx, self._now)
        ends = {id: End(state) for id, state in self._final} if completed is None else completed
        resolver.resolve_levels(ends, LEVELS, dependents)
        left = resolver.write()
        return Written(self.counts.wake | resolver.wake | freed, lambda: uuids(db, left.rows()) if left else [])

    def write_joined(self, db: Dialect, tx: Transaction) -> None:
        """Write everything in a caller's transaction. It may not see all dependents, so the sweep resolves them."""
        self._write_ends(db, tx)
        tx.execute("note_ended", self._final)

    def _write_ends(self, db: Dialect, tx: Transaction) -> set[str]:
        """Write the ends. Return the queues in which limits have room again."""
        ended = tx.query("end_leases", self._leases) if self._leases else None
        tx.execute("settle", self._settled)
        tx.execute("continue_as", self._continuations)
        tx.execute("wait_again", self._edges)
        tx.execute("add_completed", self._completed)
        tx.execute("add_runnable", self._runnable)
        tx.execute("bump_fences", self._bumps)
        tx.execute("record_attempts", self._attempts)
        tx.execute("record_results", self._results)
        tx.execute("record_logs", self._logs)
        self.counts.write(tx, self._now)
        counted = [line for line in ended.rows() if line[4] is not None or line[7]] if ended else []
        return record_ended(tx, counted, lambda lease: self._runs[db.uuid(lease.id)], self._now) if counted else set()

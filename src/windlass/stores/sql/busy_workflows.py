"""Find out which workflows have unfinished steps, at a bounded cost for each question.

The steps of a large workflow are looked at over several sweeps, one window in each. Until then it counts as busy.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from windlass.core.task import TaskId
from windlass.core.times import Micros, micros
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.step_windows import START, find_end, make_window
from windlass.stores.workflow_reads import SCANNED, StepCursor

REMEMBERED = 1_000
"""The number of large workflows to remember."""
ENDED_FOR = micros(timedelta(minutes=1))
"""How long a large workflow counts as ended before its steps are looked at again: one of them may be retried."""


class BusyWorkflows:
    """Remembers of each large workflow up to which step all have ended, or when all had."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._seen: dict[tuple[str, str], StepCursor | Micros] = {}

    def is_busy(self, tenant: str, workflow: str, now: Micros) -> bool:
        """Return False if all steps of a workflow have ended."""
        known = self._seen.pop((tenant, workflow), START)
        if isinstance(known, int):
            if now < known + ENDED_FOR:
                self._remember(tenant, workflow, known)
                return False
            known = START
        unfinished, end = self._look(tenant, workflow, known)
        if known == START and (unfinished is not None or end is None):
            return unfinished is not None  # A small workflow, or one that needs no second look.
        if unfinished is not None:
            end = StepCursor(unfinished.submitted, TaskId(UUID(int=unfinished.id.int - 1)))
        self._remember(tenant, workflow, now if end is None else end)
        return end is not None

    def _remember(self, tenant: str, workflow: str, known: StepCursor | Micros) -> None:
        self._seen[tenant, workflow] = known
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def _look(self, tenant: str, workflow: str, start: StepCursor) -> tuple[StepCursor | None, StepCursor | None]:
        """Return the first unfinished step of the next window, and the end of the window if more steps follow."""
        db = self._db

        def work(tx: Transaction) -> tuple[StepCursor | None, StepCursor | None]:
            end = find_end(db, tx, workflow, tenant, start, SCANNED)
            rows = tx.query("first_unfinished", None, **make_window(workflow, tenant, start, end)).rows()
            return (StepCursor(rows[0][0], TaskId(db.uuid(rows[0][1]))) if rows else None), end

        return db.read(work)

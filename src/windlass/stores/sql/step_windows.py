"""Windows of the steps of a workflow, in submit order, so that one read has a bounded cost."""

from __future__ import annotations

from uuid import UUID

from windlass.core.task import TaskId
from windlass.core.times import FOREVER
from windlass.stores.sql.database import Dialect, Transaction
from windlass.stores.workflow_reads import StepCursor

START = StepCursor(-1, TaskId(UUID(int=0)))
_END = StepCursor(FOREVER, TaskId(UUID(int=2**128 - 1)))


def find_end(
    db: Dialect, tx: Transaction, workflow: str, tenant: str, start: StepCursor, number: int
) -> StepCursor | None:
    """Return the last of the next `number` steps if more follow, else None."""
    rows = tx.query(
        "step_scanned",
        workflow=workflow,
        tenant=tenant,
        submitted=start.submitted,
        id=start.id,
        skip=number - 1,
    ).rows()
    return StepCursor(rows[0][0], TaskId(db.uuid(rows[0][1]))) if len(rows) > 1 else None


def make_window(workflow: str, tenant: str, start: StepCursor, end: StepCursor | None) -> dict[str, object]:
    """Return the parameters of a statement about the steps after `start` up to `end`, or up to the last step."""
    last = end or _END
    return {
        "workflow": workflow,
        "tenant": tenant,
        "submitted": start.submitted,
        "id": start.id,
        "end": last.submitted,
        "end_id": last.id,
    }

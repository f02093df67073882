"""Set the events of workflows in a SQL store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId, Wait
from windlass.core.waits import check_can_set, check_event, encode_wait, event_key, new_event
from windlass.stores.coordination import Entry
from windlass.stores.operator import EventSet
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.coordination import entry_rows
from windlass.stores.sql.database import Database, Transaction
from windlass.stores.sql.graph import resolve
from windlass.stores.sql.locks import lock_tasks
from windlass.stores.sql.rows import Moves, uuids
from windlass.stores.sql.submit import SqlSubmit, Submit, Submitted


class SqlEvents(SqlSubmit):
    """Set the events of workflows."""

    def set_event(
        self,
        workflow: str,
        event: str,
        value: str | None = None,
        *,
        tenant: str = "default",
        entries: Sequence[Entry] = (),
    ) -> EventSet:
        check_event(workflow, event, tenant)
        db, id = self._db, keyed_id(tenant, workflow, event_key(event))
        early = new_event(workflow, event, tenant=tenant, wait=Wait(event=event, is_set=True, value=value))
        submit = Submit(db, self._drafts([early]), joined=False, notes=entry_rows(entries))
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> tuple[EventSet, Submitted]:
            found = _set(db, tx, id, event, value, act)
            if found is None:
                submitted = submit(tx)
                [receipt] = submitted.receipts
                if receipt.created:
                    return EventSet(id, True, receipt.state), submitted
                found = _set(db, tx, id, event, value, act)  # Another transaction has added it meanwhile.
            assert found is not None
            return found

        done, submitted = db.transact(work)
        db.notify(submitted.wake | resolve(db, submitted.announced))
        return done


def _set(
    db: Database, tx: Transaction, id: TaskId, event: str, value: str | None, act: AuditedChange
) -> tuple[EventSet, Submitted] | None:
    """Set an event whose step exists. Return None if there is none."""
    asked = tx.query("now", now=db.now())
    rows = lock_tasks(db, tx, [id])
    [(now,)] = asked.rows()
    if not rows:
        return None
    [row] = rows
    result = tx.query("get", [(id,)]).rows()[0][-1] if row.state is State.COMPLETED else None
    wait = row.wait or Wait(event=event)
    nothing = Submitted([], [], set())
    if not check_can_set(event, value, task=id, state=row.state, wait=wait, result=result, reason=row.reason):
        return EventSet(id, False, row.state), nothing
    act.note(tx, changed=True)
    if row.state is not State.SCHEDULED:
        tx.execute("set_waits", [(id, encode_wait(replace(wait, is_set=True, value=value)))])
        return EventSet(id, True, row.state), nothing
    moves = Moves()
    moves.complete_wait(row, value, now)
    moves.write(tx, now)
    announced = uuids(db, tx.query("announce", [(id, State.COMPLETED.value)]).rows())
    return EventSet(id, True, State.COMPLETED), Submitted([], announced, set())

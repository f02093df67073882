"""Counts of tasks in a SQL store.

`count` uses the cheapest of three ways: add up the stored counts; let one statement count the tasks that an index
finds, or the newest ones; read the tasks in pages if the filter needs `core.filter`.
"""

from __future__ import annotations

from windlass.core.lifecycle import State
from windlass.stores.operator import check_filter
from windlass.stores.protocol import SCANNED, Count, Filter, check_limit
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Database
from windlass.stores.sql.filter_prefetch import Prefetch, prefetch
from windlass.stores.sql.find import find_page, now_if_timed
from windlass.stores.totals import COUNTED, Total, is_grouped, sum_groups


class SqlCount(SqlBase):
    """Count tasks."""

    def counts(self) -> list[Count]:
        rows = self._db.read(lambda tx: tx.query("counts").rows())
        return [Count(queue, tenant, State(state), tasks) for queue, tenant, state, tasks in rows]

    def count(self, filter: Filter, *, limit: int = COUNTED) -> Total:
        check_filter(filter)
        check_limit(limit)
        if is_grouped(filter):
            return Total(sum_groups(filter, self.counts()), exact=True)
        wanted = prefetch(filter, now_if_timed(self._db, filter))
        if wanted.empty:
            return Total(0, exact=True)
        return _in_one_statement(self._db, wanted, limit) if wanted.complete else _in_pages(self._db, filter, limit)


def _in_one_statement(db: Database, wanted: Prefetch, limit: int) -> Total:
    """Count among the tasks of the given workflows, of the given states, or among the newest."""
    states = set[str]() if wanted.workflows else wanted.few_states
    asked: dict[str, object] = {
        **{state: state in states for state in (State.FAILED, State.LEASED, State.RUNNABLE)},
        "due": not states.isdisjoint({State.SCHEDULED, State.RETRYING}),
        "newest": not states and not wanted.workflows,
        "states": wanted.states,
        "queues": wanted.queues,
        "tenants": wanted.tenants,
        "workflows": wanted.workflows,
        "handlers": wanted.handlers,
        "since": wanted.since,
        "before": wanted.before,
        "looked_at": limit + 1,
    }
    [(looked_at, matching)] = db.read(lambda tx: tx.query("count_matching", None, **asked).rows())
    return Total(min(matching, limit), exact=looked_at <= limit)


def _in_pages(db: Database, filter: Filter, limit: int) -> Total:
    tasks, after = 0, None
    for _ in range(-(-limit // SCANNED)):
        page = find_page(db, filter, limit - tasks, after)
        tasks, after = tasks + len(page.tasks), page.after
        if after is None or tasks == limit:
            break
    return Total(tasks, exact=after is None)

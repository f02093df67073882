"""Count the tasks that a filter matches, over SQL.

Three ways, the cheapest first: add up the counts that are kept anyway; let one statement count among the tasks that an
index finds, or among the newest; read the tasks in pages, if the filter asks for what only `core.filter` can judge.
"""

from __future__ import annotations

from windlass.core.lifecycle import State
from windlass.stores.protocol import SCANNED, Filter
from windlass.stores.sql import read
from windlass.stores.sql.database import Database
from windlass.stores.sql.filter_prefetch import Prefetch, prefetch
from windlass.stores.sql.find import find, now_if_timed
from windlass.stores.totals import Total, is_grouped, sum_groups


def count(db: Database, filter: Filter, limit: int) -> Total:
    """Count the tasks that match; look at no more than `limit` of them, or `SCANNED` if that is more."""
    if is_grouped(filter):
        return Total(sum_groups(filter, read.counts(db)), exact=True)
    wanted = prefetch(filter, now_if_timed(db, filter))
    if wanted.empty:
        return Total(0, exact=True)
    return _in_one_statement(db, wanted, limit) if wanted.complete else _in_pages(db, filter, limit)


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
        page = find(db, filter, limit - tasks, after)
        tasks, after = tasks + len(page.tasks), page.after
        if after is None or tasks == limit:
            break
    return Total(tasks, exact=after is None)

"""The SQL store: one class per group of methods, each in the file of that name."""

from __future__ import annotations

from windlass.stores.sql.claim import SqlClaim
from windlass.stores.sql.coordination import SqlCoordination
from windlass.stores.sql.count import SqlCount
from windlass.stores.sql.dead_letters import SqlDeadLetters
from windlass.stores.sql.events import SqlEvents
from windlass.stores.sql.find import SqlFind
from windlass.stores.sql.manifest import SqlManifest
from windlass.stores.sql.operate import SqlOperate
from windlass.stores.sql.read import SqlRead
from windlass.stores.sql.series import SqlSeries
from windlass.stores.sql.sessions import SqlSessions
from windlass.stores.sql.settle import SqlSettle
from windlass.stores.sql.submit import SqlSubmit
from windlass.stores.sql.sweep import SqlSweep
from windlass.stores.sql.update import SqlUpdate
from windlass.stores.sql.workflows import SqlWorkflows


class SqlStore(
    SqlWorkflows,
    SqlEvents,
    SqlSubmit,
    SqlSessions,
    SqlClaim,
    SqlSettle,
    SqlSweep,
    SqlOperate,
    SqlUpdate,
    SqlManifest,
    SqlCoordination,
    SqlRead,
    SqlFind,
    SqlCount,
    SqlDeadLetters,
    SqlSeries,
):
    """A store in a SQL database. `SQLiteStore` and `PostgresStore` add the database itself."""

    def close(self) -> None:
        self._db.close()

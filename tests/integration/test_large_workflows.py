"""A workflow of a million tasks is shown, retried and cancelled, at bounded memory."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from hashlib import md5
from pathlib import Path
from subprocess import Popen
from typing import LiteralString
from uuid import UUID

import psycopg
import pytest
from msgspec import Struct

from windlass.clock import monotonic

LOG = logging.getLogger(__name__)
# More than 100,000, above which a workflow is shown by its counts.
TASKS = int(os.environ.get("WINDLASS_SOAK_TASKS", "1_000_000"))
MOST_MEMORY = 300 * 1024 * 1024

# A tree: each task waits for the one with a tenth of its number. The first one failed, and took all others down.
FILL: Sequence[LiteralString] = (
    """
    CREATE TEMPORARY TABLE numbered AS
    SELECT n, md5(n::text)::uuid AS id, CASE n WHEN 1 THEN 'failed' ELSE 'cancelled' END AS state
      FROM generate_series(1, %(tasks)s) AS n
    """,
    """
    INSERT INTO windlass.task
           (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, finished, kind, reason, handler, args,
            workflow, workflow_tenant, key, priority, first_due, submitted)
    SELECT id, 'default', 'default', state, 0, 0, n, 1, 0, 'cancel', 1, n %% 7,
           CASE n WHEN 1 THEN 'oops' ELSE 'Prerequisite of this failed.' END,
           'h' || n %% 7, '{}', 'w', 'default', 's' || n, 0, 1, n / 1000
      FROM numbered
    """,
    """
    INSERT INTO windlass.edge (child, parent, resolved)
    SELECT id, md5(greatest(1, n / 10)::text)::uuid, true FROM numbered WHERE n > 1
    """,
    """
    INSERT INTO windlass.count_delta (queue, tenant, state, tasks)
    SELECT 'default', 'default', state, count(*) FROM numbered GROUP BY state
    """,
    "ANALYZE windlass.task, windlass.edge",
)


def id_of(number: int) -> str:
    """The id of the task with this number."""
    return str(UUID(md5(str(number).encode(), usedforsecurity=False).hexdigest()))


class Ran(Struct, frozen=True):
    """What a command has printed, and what it took."""

    out: str
    seconds: float
    memory: int


def run(folder: Path, url: str, *words: str) -> Ran:
    """Run `windlass workflows` to its end; by itself, so that its peak of memory is its own."""
    environ = {**os.environ, "WINDLASS_URL": url}
    begun = monotonic()
    with (folder / "out").open("w+") as out:
        process = Popen([sys.executable, "-m", "windlass", "workflows", *words], env=environ, stdout=out, stderr=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        ran = Ran(out.read(), monotonic() - begun, used.ru_maxrss * 1024)
    LOG.info("%s: %.1f s, %.0f MB, %d characters", " ".join(words), ran.seconds, ran.memory / 2**20, len(ran.out))
    assert process.returncode == 0, ran.out
    assert ran.memory < MOST_MEMORY
    return ran


@pytest.mark.soak
def test_a_workflow_of_a_million_tasks_is_shown_retried_and_cancelled(migrated_url: str, tmp_path: Path) -> None:
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        for statement in FILL:
            connection.execute(statement, {"tasks": TASKS})

    listed = run(tmp_path, migrated_url, "ls")
    shown = [run(tmp_path, migrated_url, form, "w") for form in ("show", "graph", "gantt")]
    paged = run(tmp_path, migrated_url, "show", "w", "--json", "--limit", "100", "--after-step", id_of(TASKS // 2))
    tried = run(tmp_path, migrated_url, "retry", "w", "--from", id_of(1), "--dry-run", "--json")
    retried = run(tmp_path, migrated_url, "retry", "w", "--from", id_of(1), "--yes")
    waiting = run(tmp_path, migrated_url, "show", "w")
    cancelled = run(tmp_path, migrated_url, "cancel", "w", "--yes")

    assert "10,000+" in listed.out
    assert all(f"{TASKS:,} steps are too many" in each.out and len(each.out) < 5_000 for each in shown)
    assert '"aggregated": true' in paged.out
    assert f'"matching": {TASKS}' in tried.out
    assert retried.out == f"Retried {TASKS:,} tasks.\n"
    assert f"◇ {TASKS - 1:,}, ▸ 1" in waiting.out
    assert cancelled.out == f"Cancelled {TASKS:,} tasks.\n"

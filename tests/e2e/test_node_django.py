"""Django in workers: a database connection that is lost in one task does not fail the next ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.nodes import NodeProcess
from tests.support.processes import until
from windlass import App, State

pytestmark = pytest.mark.slow

APP = """
import django
from django.conf import settings

settings.configure(
    DATABASES={{
        "default": {{
            "ENGINE": "django.db.backends.postgresql", "NAME": "{dbname}", "USER": "{user}", "HOST": "{host}",
            "PORT": "{port}", "CONN_MAX_AGE": None,
        }}
    }}
)
django.setup()
from django.db import connection

import windlass

app = windlass.App()


@app.task(name="lose", retries=0)
def lose() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@app.task(name="ask", retries=0)
def ask() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        return cursor.fetchone()[0]
"""


def test_a_lost_connection_does_not_poison_the_worker(postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "django_app.py").write_text(APP.format(**conninfo_to_dict(postgres_url)))
    app = App(postgres_url)
    lose = app.task(name="lose", retries=0)(lambda: None)
    ask = app.task(name="ask", retries=0)(lambda: 0)
    where = {"app": "django_app:app", "PYTHONPATH": str(tmp_path)}
    with NodeProcess(postgres_url, tmp_path / "effects.jsonl", "-n", "1", **where) as node:
        node.await_workers()

        first, lost, later = ask.enqueue(), lose.enqueue(), ask.enqueue()
        until(lambda: later.state.final, "all have ended")

        assert (first.state, lost.state, later.state) == (State.COMPLETED, State.FAILED, State.COMPLETED)
    app.close()

"""`windlass repro` of handlers that write to the database of the store on their own connections."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.builders import claim_one, state_of, submit_one
from tests.support.processes import open_store
from windlass.core.lifecycle import State
from windlass.stores.protocol import Filter

APP = """
import os
import psycopg
import windlass

app = windlass.App()

@app.task
def completes() -> None:
    with psycopg.connect(os.environ["WINDLASS_URL"]) as conn:
        with windlass.current().transaction(conn):
            conn.execute("INSERT INTO invoice VALUES (1)")

@app.task
def enqueues() -> None:
    with psycopg.connect(os.environ["WINDLASS_URL"]) as conn:
        conn.execute("INSERT INTO invoice VALUES (1)")
        completes.using(conn=conn).enqueue()

@app.task
async def aenqueues() -> None:
    async with await psycopg.AsyncConnection.connect(os.environ["WINDLASS_URL"]) as conn:
        await conn.execute("INSERT INTO invoice VALUES (1)")
        await completes.using(conn=conn).aenqueue()
"""


@pytest.mark.parametrize(
    ("handler", "message"),
    [("completes", "StaleLease"), ("enqueues", "this store is open for reading only"), ("aenqueues", "StaleLease")],
)
def test_nothing_is_written_for_an_attempt_that_runs_elsewhere(
    tmp_path: Path, postgres_url: str, handler: str, message: str
) -> None:
    (tmp_path / "shop.py").write_text(APP)
    store = open_store(postgres_url)
    with psycopg.connect(postgres_url) as conn:
        conn.execute("CREATE TABLE invoice (id int)")
    id = submit_one(store, handler=f"shop.{handler}")
    claim_one(store)

    command = [sys.executable, "-m", "windlass", "repro", str(id), "shop:app"]
    env = {**os.environ, "WINDLASS_URL": postgres_url}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    with psycopg.connect(postgres_url) as conn:
        invoices = conn.execute("SELECT id FROM invoice").fetchall()

    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert (state_of(store, id), invoices, len(store.find(Filter()).tasks)) == (State.LEASED, [], 1)
    store.close()

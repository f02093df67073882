"""Rows that are written exactly once: the handler's transaction contains the completion of its task (PostgreSQL).

Run it: WINDLASS_URL=postgresql://… python examples/exactly_once_rows.py
"""

import os

import psycopg

import windlass

app = windlass.App()


@app.task(retries=3)
def bill(customer: int, cents: int) -> str:
    """Write an invoice. If this process dies before the commit, nothing is written, and the task runs again."""
    with (
        psycopg.connect(os.environ["WINDLASS_URL"]) as conn,
        windlass.current().transaction(conn) as tx,
    ):
        conn.execute("INSERT INTO invoice (customer, cents) VALUES (%s, %s)", (customer, cents))
        tx.result("billed")
    return "not used: the result was given above"


if __name__ == "__main__":
    with psycopg.connect(os.environ["WINDLASS_URL"], autocommit=True) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS invoice (customer int, cents int)")
        with conn.transaction():  # the order and its task: both or neither
            handle = bill.using(conn=conn).enqueue(42, cents=500)
        with app.worker(size=1):
            print(handle.result(timeout=30))
        print("invoices:", conn.execute("SELECT count(*) FROM invoice").fetchall()[0][0])

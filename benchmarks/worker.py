"""The CPU time of one worker process per task, by kind of handler: `python -m benchmarks.worker [TASKS]`.

A worker is forked and driven over its real sockets and pipes, without a node and a store. The driver reads what the
worker reports every 2 ms, as a busy node does.
"""

from __future__ import annotations

import os
import select
import sys
import time
from resource import struct_rusage
from uuid import UUID, uuid4

from windlass import App
from windlass.clock import SystemClock, monotonic
from windlass.core.assignment import assignment_fields
from windlass.core.task import Claim, Lease, Rules, SessionId, TaskId
from windlass.events import Events
from windlass.worker.connection import WorkerLink
from windlass.worker.log_format import LogOptions
from windlass.worker.tickets import EXIT_TICKET
from windlass.worker.wire import Done, Fork, encode_run
from windlass.worker.worker import Worker
from windlass.worker.worker_main import run_worker

TASKS = 20_000
AHEAD, BATCH = 250, 50
"""Tasks that wait in the worker, and tasks in one message."""
READ_EVERY = 0.002
SESSION = SessionId(UUID(int=1))

app = App("memory:")


@app.task(name="def")
def nothing() -> None: ...


@app.task(name="async")
async def anothing() -> None: ...


@app.task(name="arguments")
def take(number: int, text: str) -> None: ...


@app.task(name="result")
def give() -> int:
    return 1


@app.task(name="output")
def speak() -> None:
    sys.stdout.write("a line\n")


ARGUMENTS = {"arguments": '{"number":1,"text":"hello"}'}


class Driver:
    """Stands in for the node of one worker."""

    def __init__(self) -> None:
        self._link = WorkerLink(Worker(1, "default", 1, monotonic(), Events(), None), SystemClock())
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._run_worker()
        for descriptor in self._link.files:
            os.close(descriptor)
        self._poll = select.poll()
        self._poll.register(self._link.control.socket, select.POLLIN)
        self._poll.register(self._link.ends.reader, select.POLLIN)
        self._receive()  # Hello: it is ready.

    def run(self, handler: str, tasks: int) -> None:
        """Run tasks of one handler to their ends."""
        sent = ended = 0
        while ended < tasks:
            while sent < tasks and sent - ended <= AHEAD - BATCH:
                tickets = list(range(sent + 1, min(sent + BATCH, tasks) + 1))
                fields = [assignment_fields(ticket, 1, a_claim(handler, ticket)) for ticket in tickets]
                self._link.tasks.send_frame(encode_run(SESSION, monotonic() + 60, fields))
                self._link.tickets.offer(tickets)
                sent += len(tickets)
            ended += self._receive()
            time.sleep(READ_EVERY)

    def stop(self) -> struct_rusage:
        """Let the worker exit, and return what it has used."""
        self._link.tickets.offer([EXIT_TICKET])
        _, status, used = os.wait4(self._pid, 0)
        self._link.close()
        assert status == 0, f"the worker ended with status {status}"
        return used

    def _receive(self) -> int:
        """Wait for reports, and return the number of tasks that have ended."""
        self._poll.poll()
        ends, _ = self._link.ends.receive()
        messages, _ = self._link.control.receive()
        return len(ends) + sum(isinstance(message, Done) for message in messages)

    def _run_worker(self) -> None:
        status = 1
        try:
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            status = run_worker(app, self._link.files, Fork(1, 1), LogOptions())
        finally:
            os._exit(status)


def a_claim(handler: str, number: int) -> Claim:
    lease = Lease(TaskId(uuid4()), number, SESSION)
    return Claim(lease, handler, ARGUMENTS.get(handler, "{}"), Rules(), "default", "default", 0, 0)


def measure(handler: str, tasks: int) -> tuple[float, float]:
    """Return the user and system microseconds per task. Those of a worker that runs nothing are subtracted."""
    used: list[struct_rusage] = []
    for many in (0, tasks):
        driver = Driver()
        driver.run(handler, many)
        used.append(driver.stop())
    idle, busy = used
    return (busy.ru_utime - idle.ru_utime) / tasks * 1e6, (busy.ru_stime - idle.ru_stime) / tasks * 1e6


def main(*arguments: str) -> int:
    tasks = int(float(arguments[0])) if arguments else TASKS
    print(f"{'handler':10}  {'µs/task':>8}  {'user':>6}  {'system':>6}")
    for handler in app.handlers:
        user, system = measure(handler, tasks)
        print(f"{handler:10}  {user + system:8.1f}  {user:6.1f}  {system:6.1f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

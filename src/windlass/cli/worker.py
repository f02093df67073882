"""`windlass worker`: run a node with its pools of workers."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import click
from msgspec.structs import replace

from windlass.cli.logs import LEVELS, log_events, log_failure, logs_json
from windlass.cli.options import (
    config_option,
    drain_timeout_option,
    max_option,
    min_option,
    url_option,
    wait_goal_option,
)
from windlass.clock import SystemClock, monotonic
from windlass.config import InvalidSettings, NodeSettings, PoolSettings, read_settings
from windlass.core.times import duration
from windlass.errors import InvalidTask, WindlassError
from windlass.events import Events, Listening, NodeStarted, SettingsRefused
from windlass.store_choice import HOW_TO_CHOOSE, StoreChoice, choose_explicit, choose_node_store
from windlass.wiring import open_store
from windlass.worker.app_import import import_app
from windlass.worker.isolation import find_user, protect_process
from windlass.worker.node import STOP_SIGNALS, Node, NodeFailed, StopOnSignal
from windlass.worker.parent_client import list_hidden, parent_environment

if TYPE_CHECKING:
    from windlass.metrics.node_listener import NodeListener

_POOL = re.compile(r"(?P<name>[^:=]+)(:(?P<queues>[^=]+))?(=(?P<size>\d+)(-(?P<most>\d+))?(x(?P<threads>\d+))?)?")


Companion: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Runs in the same process as the node, on the store of a URL: the server of `windlass up`."""


@click.command()
@click.argument("app", required=False)
@url_option
@config_option
@click.option("-Q", "--queues", metavar="A,B", help="Queues of all pools, in order of precedence.")
@click.option(
    "--order",
    type=click.Choice(["queues", "deadline"]),
    help="Claim queue by queue, or the earliest deadline of all queues.  [default: queues]",
)
@click.option("-n", "--size", type=int, help="Number of workers.  [default: as many as the load needs]")
@min_option
@max_option()
@wait_goal_option
@click.option("-t", "--threads", type=int, help="Tasks that a worker runs at once.  [default: 1]")
@click.option("--async-tasks", type=int, help="`async def` tasks that a worker runs at once.  [default: 32]")
@click.option(
    "-p", "--pool", "pools", multiple=True, metavar="NAME[:A,B][=SIZE[-MAX][xTHREADS]]", help="Pool of the node."
)
@click.option("--name", help="Name of this node.  [default: host and process id]")
@click.option("--tag", "tags", multiple=True, help="Tag of this machine, for tasks that require it. Repeatable.")
@click.option("--worker-user", metavar="NAME", help="Run workers as this user of the machine. The node must be root.")
@click.option("--recycle-after", type=int, metavar="N", help="Replace a worker after N tasks.")
@click.option("--memory-limit", type=int, metavar="MB", help="Replace a worker that uses more memory, between tasks.")
@drain_timeout_option()
@click.option("--session-ttl", metavar="TIME", help="Time without renewal after which this node is lost.")
@click.option("--retention", metavar="TIME", help="How long finished tasks are kept.  [default: 7d]")
@click.option(
    "--hide-store-url", is_flag=True, default=None, help="Hide environment variables with the store URL from workers."
)
@click.option("--log-level", type=click.Choice(LEVELS), help="Lowest level of log lines.  [default: info]")
@click.option("-q", "--quiet", is_flag=True, help="Log only problems, as --log-level warning does.")
@click.option(
    "--health", "--metrics", "health", metavar="[HOST:]PORT", help="Serve /healthz, /readyz and /metrics on this port."
)
@click.option("--reload", "reloads", is_flag=True, help="Restart when code of the app changes. For development.")
@click.option(
    "--reload-dir",
    "reload_dirs",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another folder to watch with --reload. Repeatable.  [default: the current one and that of the app]",
)
def worker(
    app: str | None,
    store_url: str | None,
    config_path: Path | None,
    queues: str | None,
    order: str | None,
    size: int | None,
    min_workers: int | None,
    max_workers: int | None,
    wait_goal: str | None,
    threads: int | None,
    async_tasks: int | None,
    pools: Sequence[str],
    name: str | None,
    tags: Sequence[str],
    worker_user: str | None,
    recycle_after: int | None,
    memory_limit: int | None,
    drain_timeout: str | None,
    session_ttl: str | None,
    retention: str | None,
    hide_store_url: bool | None,
    log_level: str | None,
    quiet: bool,
    health: str | None,
    reloads: bool,
    reload_dirs: Sequence[Path],
) -> None:
    """Run tasks: a node with its pools of workers.

    APP is the app to run, such as shop:app. A pool sizes itself unless it has a fixed size. --pool may be repeated:
    mail=1-16 sizes itself, mail:mail,news=4x2 has four workers of two threads for two queues, and a bare name is a pool
    of the settings file.

    SIGTERM or Ctrl-C drains the node: running tasks end, other claimed tasks are released. The second signal stops
    running tasks, the third kills them. SIGTTIN and SIGTTOU grow and shrink pools of fixed size by one. SIGHUP, or a
    change of the settings file, reloads it; SIGHUP of a terminal that closes drains the node.

    Every end of a task is one line of the log on standard error: for people on a terminal, as JSON elsewhere.
    """
    if quiet and log_level is not None:
        raise click.UsageError("--quiet and --log-level exclude each other. Use one.")
    if reloads or reload_dirs:
        from windlass.cli.reload import find_app_folder, is_reload_child, run_reloading

        if not is_reload_child():
            folders = [Path(), *find_app_folder(app or read_settings(config_path).app), *reload_dirs]
            raise SystemExit(run_reloading(folders, config_path or Path("windlass.yaml")))
    flags = {
        "queues": None if queues is None else tuple(queue.strip() for queue in queues.split(",")),
        "order": order,
        "size": size,
        "min": min_workers,
        "max": max_workers,
        "threads": threads,
        "async_tasks": async_tasks,
        "recycle_after": recycle_after,
        "memory_limit": None if memory_limit is None else memory_limit << 20,
    }
    flags = {field: value for field, value in flags.items() if value is not None}

    def read() -> NodeSettings:
        """Read the settings file and apply the options of the command line."""
        file = read_settings(config_path)
        target = app or file.app
        if target is None:
            raise InvalidSettings("settings: no app. Name it, as in `windlass worker shop:app`, or in windlass.yaml.")
        return NodeSettings(
            app=target,
            name=name or file.name,
            pools=tuple(_apply(pool, flags, wait_goal) for pool in _pools(file.pools, pools)),
            budget=file.budget,
            tags=(*file.tags, *tags),
            worker_user=file.worker_user if worker_user is None else worker_user,
            drain_timeout=_parse_drain_timeout(drain_timeout) if drain_timeout is not None else file.drain_timeout,
            session_ttl=file.session_ttl if session_ttl is None else duration(session_ttl, "session_ttl"),
            retention=file.retention if retention is None else duration(retention, "retention"),
            hide_store_url=file.hide_store_url if hide_store_url is None else hide_store_url,
            log_level=log_level or ("warning" if quiet else "info"),
            log_json=logs_json(),
            health=str(file.health) if health is None else health,
        )

    settings = read()
    settings.check()
    explicit = choose_explicit(store_url, config=config_path)
    _check_hidable(settings, explicit)
    events = Events()
    log_events(events, settings.log_level)
    try:
        _serve(settings, explicit, events, Reload(config_path or Path("windlass.yaml"), read))
    except WindlassError as error:
        from windlass.cli.main import EXITS

        log_failure(str(error), error.code)
        raise SystemExit(EXITS.get(error.code, 1)) from None


def _serve(settings: NodeSettings, explicit: StoreChoice | None, events: Events, reload: Reload) -> None:
    """Import the app, choose the store and run the node."""
    protect_process("" if explicit is None else explicit.url)
    if settings.worker_user:
        find_user(settings.worker_user)
    listener = _listener(settings.health, events)
    with StopEarly() as stop:
        imported = import_app(settings, None if explicit is None else explicit.url, SystemClock(), stop.asked.is_set)
        if imported is None:
            return
        try:
            choice = choose_node_store(explicit, settings.app, imported.ready.store_url)
            opened = partial(open_store, choice.url, retention=settings.retention)
            opener = opened if listener is None else lambda: listener.measure(opened())
            node = Node(settings, opener, choice.url, events, imported=imported)
        except BaseException:
            imported.parent.close()
            raise
        if listener:
            listener.watch(node)
        signals = Signals(node, reload)
        if stop.asked.is_set():
            node.drain()
    run(node, settings, choice, signals)


def run(node: Node, settings: NodeSettings, choice: StoreChoice, signals: Signals) -> None:
    """Run a node until it is stopped, together with the companion of the command."""
    companion: Companion = click.get_current_context().obj or nullcontext
    with companion(choice.url):
        node.start()
        hidden = tuple(list_hidden(parent_environment(choice.url, hide=True))) if settings.hide_store_url else None
        pools = _describe(settings.pools)
        node.events.emit(NodeStarted(app=settings.app, store=str(choice), pools=pools, hidden=hidden))
        signals.wait()
        node.close()
    if node.failure is not None:
        raise NodeFailed(f"The node stopped: {node.failure}")


def _check_hidable(settings: NodeSettings, explicit: StoreChoice | None) -> None:
    """Refuse to hide a URL that only the app knows: it must have it before the node does."""
    if settings.hide_store_url and explicit is None:
        raise InvalidSettings(f"settings: hide_store_url: the URL of the app itself cannot be hidden. {HOW_TO_CHOOSE}")


def _listener(address: str, events: Events) -> NodeListener | None:
    """Listen on an address, if one is given."""
    if not address:
        return None
    from windlass.metrics.node_listener import NodeListener

    listener = NodeListener(address, events)
    events.emit(Listening(address=listener.url, serves="/healthz, /readyz and /metrics"))
    return listener


class StopEarly:
    """Records a signal to stop that arrives while the app is imported, before there is a node."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in STOP_SIGNALS:
            self._before[number] = signal.signal(number, lambda _number, _frame: self.asked.set())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # Otherwise the node handles the signals now.
            for number, handler in self._before.items():
                signal.signal(number, handler)


class Reload:
    """Detects changes of the settings file and reloads it."""

    def __init__(self, path: Path, read: Callable[[], NodeSettings]) -> None:
        self._path = path
        self._read = read
        self._seen = self._stamp()
        self._look_at = 0.0

    def due(self) -> bool:
        """Return True if the file has changed since the last check. Checks once a second."""
        if monotonic() < self._look_at:
            return False
        self._look_at = monotonic() + 1.0
        before, self._seen = self._seen, self._stamp()
        return self._seen != before and self._seen is not None

    def __call__(self, node: Node) -> None:
        """Apply the file to the node. If it is invalid, the node keeps its settings."""
        try:
            node.reload(self._read())
        except (InvalidSettings, InvalidTask) as error:
            node.events.emit(SettingsRefused(why=str(error)))

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


class Signals:
    """Handles the signals of the process in the main thread."""

    def __init__(self, node: Node, reload: Reload | None = None) -> None:
        self._node = node
        self._reload = reload
        self._hung_up = False
        self._terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
        """Whether the node ends with its terminal. `nohup` ignores SIGHUP, so that it does not."""
        leaving = StopOnSignal(node)
        for number in STOP_SIGNALS:
            signal.signal(number, leaving)
        signal.signal(signal.SIGHUP, self._hang_up)
        signal.signal(signal.SIGTTIN, lambda _number, _frame: self._resize(1))
        signal.signal(signal.SIGTTOU, lambda _number, _frame: self._resize(-1))

    def wait(self) -> None:
        """Wait until the node has stopped. The short waits let Python run signal handlers."""
        while not self._node.ended.wait(0.2):
            if self._reload is not None and (self._hung_up or self._reload.due()):
                self._hung_up = False
                self._reload(self._node)

    def _hang_up(self, _number: int, _frame: FrameType | None) -> None:
        if self._terminal and not _has_terminal():
            threading.Thread(target=self._node.drain).start()
        else:
            self._hung_up = True

    def _resize(self, by: int) -> None:
        threading.Thread(target=self._node.grow, args=(by,)).start()


def _has_terminal() -> bool:
    """Return whether this process has a terminal that is not closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _pools(known: Sequence[PoolSettings], named: Sequence[str]) -> list[PoolSettings]:
    """Return the named pools, or those of the file, or one default pool."""
    return [_parse_pool(text, known) for text in named] or list(known) or [PoolSettings()]


def _apply(pool: PoolSettings, flags: dict[str, Any], wait_goal: str | None) -> PoolSettings:
    """Apply the options for all pools to a pool."""
    if wait_goal is not None:
        pool = replace(pool, scale=replace(pool.scale, wait=duration(wait_goal, "wait_goal").total_seconds()))
    if "size" not in flags and ("min" in flags or "max" in flags):
        flags = {**flags, "size": None}
    return replace(pool, **flags)


def _parse_pool(text: str, known: Sequence[PoolSettings]) -> PoolSettings:
    found = _POOL.fullmatch(text)
    if found is None:
        raise InvalidSettings(f"settings: --pool {text!r} is not NAME[:QUEUE,QUEUE][=SIZE[-MAX][xTHREADS]]")
    name, queues, size, most, threads = found["name"], found["queues"], found["size"], found["most"], found["threads"]
    pool = next((pool for pool in known if pool.name == name), None)
    if pool is None:
        pool = PoolSettings(name=name, queues=(name,))
    changes: dict[str, object] = {}
    if queues is not None:
        changes["queues"] = tuple(queues.split(","))
    if most is not None:
        changes |= {"size": None, "min": int(size), "max": int(most)}
    elif size is not None:
        changes["size"] = int(size)
    if threads is not None:
        changes["threads"] = int(threads)
    return replace(pool, **changes)


def _parse_drain_timeout(text: str) -> timedelta | None:
    return duration(float(text) if text.replace(".", "").isdigit() else text, "drain_timeout") or None


def _describe(pools: Sequence[PoolSettings]) -> str:
    return ", ".join(f"{pool.name} ({_size(pool)}×{pool.threads} for {', '.join(pool.queues)})" for pool in pools)


def _size(pool: PoolSettings) -> str:
    return str(pool.size) if pool.size is not None else f"{pool.min_workers} to {pool.max_workers}"

"""`windlass worker`: run a node with its pools of workers."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from msgspec.structs import replace

from windlass.cli.logs import log_events
from windlass.cli.options import (
    config_option,
    drain_timeout_option,
    max_option,
    min_option,
    url_option,
    wait_goal_option,
)
from windlass.clock import monotonic
from windlass.config import InvalidSettings, NodeSettings, PoolSettings, read_settings
from windlass.core.times import duration
from windlass.errors import InvalidTask
from windlass.events import Events, SettingsRefused
from windlass.wiring import DEFAULT_URL, open_store
from windlass.worker.node import STOP_SIGNALS, Node, NodeFailed, StopOnSignal

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
@click.option(
    "-p", "--pool", "pools", multiple=True, metavar="NAME[:A,B][=SIZE[-MAX][xTHREADS]]", help="Pool of the node."
)
@click.option("--name", help="Name of this node.  [default: host and process id]")
@click.option("--tag", "tags", multiple=True, help="Tag of this machine, for tasks that require it. Repeatable.")
@click.option("--recycle-after", type=int, metavar="N", help="Replace a worker after N tasks.")
@click.option("--memory-limit", type=int, metavar="MB", help="Replace a worker that uses more memory, between tasks.")
@drain_timeout_option()
@click.option("--session-ttl", metavar="TIME", help="Time without renewal after which this node is lost.")
@click.option("--pass-store-url", is_flag=True, default=None, help="Pass the store URL to the workers.")
@click.option(
    "--health", "--metrics", "health", metavar="[HOST:]PORT", help="Serve /healthz, /readyz and /metrics on this port."
)
def worker(
    app: str | None,
    store_url: str | None,
    config_path: Path | None,
    queues: str | None,
    order: str | None,
    size: int | None,
    floor: int | None,
    ceiling: int | None,
    wait_goal: str | None,
    threads: int | None,
    pools: Sequence[str],
    name: str | None,
    tags: Sequence[str],
    recycle_after: int | None,
    memory_limit: int | None,
    drain_timeout: str | None,
    session_ttl: str | None,
    pass_store_url: bool | None,
    health: str | None,
) -> None:
    """Run tasks: a node with its pools of workers.

    APP is the app to run, such as shop:app. A pool sizes itself unless it has a fixed size. --pool may be repeated:
    mail=1-16 sizes itself, mail:mail,news=4x2 has four workers of two threads for two queues, and a bare name is a pool
    of the settings file.

    SIGTERM or Ctrl-C drains the node: running tasks end, other claimed tasks are released. The second signal stops
    running tasks, the third kills them. SIGTTIN and SIGTTOU grow and shrink pools of fixed size by one. SIGHUP, or a
    change of the settings file, reloads it.
    """
    flags = {
        "queues": None if queues is None else tuple(queue.strip() for queue in queues.split(",")),
        "order": order,
        "size": size,
        "min": floor,
        "max": ceiling,
        "threads": threads,
        "recycle_after": recycle_after,
        "memory_limit": None if memory_limit is None else memory_limit << 20,
    }
    flags = {field: value for field, value in flags.items() if value is not None}

    def read() -> tuple[NodeSettings, str]:
        """Read the settings file and apply the options of the command line."""
        file = read_settings(config_path)
        target = app or file.app
        if target is None:
            raise InvalidSettings("settings: no app. Name it, as in `windlass worker shop:app`, or in windlass.yaml.")
        settings = NodeSettings(
            app=target,
            name=name or file.name,
            pools=tuple(_apply(pool, flags, wait_goal) for pool in _pools(file.pools, pools)),
            budget=file.budget,
            tags=(*file.tags, *tags),
            drain_timeout=_parse_drain_timeout(drain_timeout) if drain_timeout is not None else file.drain_timeout,
            session_ttl=file.session_ttl if session_ttl is None else duration(session_ttl, "session_ttl"),
            pass_store_url=file.pass_store_url if pass_store_url is None else pass_store_url,
            health=str(file.health) if health is None else health,
        )
        return settings, store_url or file.store or DEFAULT_URL

    settings, url = read()
    run(settings, url, Reload(config_path or Path("windlass.yaml"), lambda: read()[0]))


def run(settings: NodeSettings, url: str, reload: Reload | None = None) -> None:
    """Run a node until it is stopped, together with the companion of the command."""
    events = Events()
    log_events(events)
    listener = _listener(settings.health, events)
    opened = partial(open_store, url)
    node = Node(settings, opened if listener is None else lambda: listener.measure(opened()), url, events)
    if listener:
        listener.watch(node)
    signals = Signals(node, reload)
    companion: Companion = click.get_current_context().obj or nullcontext
    with companion(url):
        node.start()
        click.echo(f"windlass: node of {settings.app}, pools {_describe(settings.pools)}; Ctrl-C drains", err=True)
        signals.wait()
        node.close()
    if node.failure is not None:
        raise NodeFailed(f"The node stopped: {node.failure}")


def _listener(address: str, events: Events) -> NodeListener | None:
    """Listen on an address, if one is given."""
    if not address:
        return None
    from windlass.metrics.node_listener import NodeListener

    listener = NodeListener(address, events)
    click.echo(f"windlass: /healthz, /readyz and /metrics at {listener.url}", err=True)
    return listener


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
        self._hung_up = True

    def _resize(self, by: int) -> None:
        threading.Thread(target=self._node.grow, args=(by,)).start()


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
    return str(pool.size) if pool.size is not None else f"{pool.floor} to {pool.ceiling}"

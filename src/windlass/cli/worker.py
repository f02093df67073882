"""`windlass worker APP`: one node on this machine, until it is told to leave."""

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
from windlass.cli.stores import store_option
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


Beside: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""What runs in the same process as a node, on the same store: `windlass up` puts the server there."""


@click.command()
@click.argument("app", required=False)
@store_option
@click.option("--config", type=click.Path(path_type=Path), help="Settings file.  [default: windlass.yaml if there]")
@click.option("-Q", "--queues", metavar="A,B", help="The queues to serve, in turn.")
@click.option(
    "--order",
    type=click.Choice(["queues", "deadline"]),
    help="One queue after the other, or the earliest deadline over all queues of a pool.  [default: queues]",
)
@click.option("-n", "--size", type=int, help="How many workers.  [default: as many as the load needs]")
@click.option("--min", "least", type=int, help="The fewest workers of a pool that sizes itself.  [default: 1]")
@click.option("--max", "most", type=int, help="The most workers.  [default: 8 for each processor, at most 64]")
@click.option(
    "--wait", metavar="TIME", help="How long a task may wait for a worker: what pools size themselves by. [5s]"
)
@click.option("-t", "--threads", type=int, help="How many tasks a worker runs at once.  [default: 1]")
@click.option(
    "-p",
    "--pool",
    "pools",
    multiple=True,
    metavar="NAME[:A,B][=SIZE[-MAX][xTHREADS]]",
    help="A pool of this node, as in mail:mail,news=4x2, or mail=1-16 for one that sizes itself; or a pool of the "
    "settings file by its name. Repeatable.",
)
@click.option("--name", help="What people call this node.  [default: host and process]")
@click.option("--tag", "tags", multiple=True, help="What this machine has, for tasks that require it. Repeatable.")
@click.option("--recycle-after", type=int, metavar="N", help="Replace a worker after N tasks.")
@click.option("--memory-limit", type=int, metavar="MB", help="Replace a worker that holds more, between tasks.")
@click.option("--drain-timeout", metavar="TIME", help="How long a drain waits for running tasks; 0 for ever. [30s]")
@click.option("--session-ttl", metavar="TIME", help="After which silence this node counts as lost.  [15s]")
@click.option("--pass-store-url", is_flag=True, default=None, help="Let workers see the store's URL.")
@click.option(
    "--health",
    "--metrics",
    "health",
    metavar="[HOST:]PORT",
    help="Serve /healthz, /readyz and /metrics there.  [default: nowhere]",
)
def worker(
    app: str | None,
    store_url: str | None,
    config: Path | None,
    queues: str | None,
    order: str | None,
    size: int | None,
    least: int | None,
    most: int | None,
    wait: str | None,
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
    """Run the tasks of APP, as in shop:app, on this machine.

    A pool sizes itself unless it is given a size. SIGTERM or Ctrl-C drains: what runs is ended, the rest given back; a
    second one hurries, a third one kills. SIGTTIN and SIGTTOU make every pool of a given size larger and smaller by
    one. SIGHUP, or a change of the settings file, has it read again.
    """
    flags = {
        "queues": None if queues is None else tuple(queue.strip() for queue in queues.split(",")),
        "order": order,
        "size": size,
        "min": least,
        "max": most,
        "threads": threads,
        "recycle_after": recycle_after,
        "memory_limit": None if memory_limit is None else memory_limit << 20,
    }
    flags = {field: value for field, value in flags.items() if value is not None}

    def settled() -> tuple[NodeSettings, str]:
        """The file as it is now, with what the command line says on top."""
        file = read_settings(config)
        target = app or file.app
        if target is None:
            raise InvalidSettings("settings: no app; name it on the command line, as in `windlass worker shop:app`")
        settings = NodeSettings(
            app=target,
            name=name or file.name,
            pools=tuple(_changed(pool, flags, wait) for pool in _pools(file.pools, pools)),
            budget=file.budget,
            tags=(*file.tags, *tags),
            drain_timeout=_limit(drain_timeout) if drain_timeout is not None else file.drain_timeout,
            session_ttl=file.session_ttl if session_ttl is None else duration(session_ttl, "session_ttl"),
            pass_store_url=file.pass_store_url if pass_store_url is None else pass_store_url,
            health=str(file.health) if health is None else health,
        )
        return settings, store_url or file.store or DEFAULT_URL

    settings, url = settled()
    run(settings, url, Reload(config or Path("windlass.yaml"), lambda: settled()[0]))


def run(settings: NodeSettings, url: str, reload: Reload | None = None) -> None:
    """Be a node until told to leave, with whatever the command has put beside it."""
    events = Events()
    log_events(events)
    listener = _listener(settings.health, events)
    opened = partial(open_store, url)
    node = Node(settings, opened if listener is None else lambda: listener.measure(opened()), url, events)
    if listener:
        listener.watch(node)
    signals = Signals(node, reload)
    beside: Beside = click.get_current_context().obj or nullcontext
    with beside(url):
        node.start()
        click.echo(f"windlass: node of {settings.app}, pools {_described(settings.pools)}; Ctrl-C drains", err=True)
        signals.wait()
        node.close()
    if node.failure is not None:
        raise NodeFailed(f"the node has ended: {node.failure}")


def _listener(address: str, events: Events) -> NodeListener | None:
    """Listen at an address, if one is given; imported only then."""
    if not address:
        return None
    from windlass.metrics.node_listener import NodeListener

    listener = NodeListener(address, events)
    click.echo(f"windlass: /healthz, /readyz and /metrics at {listener.url}", err=True)
    return listener


class Reload:
    """Sees that the settings file has changed, and reads it anew."""

    def __init__(self, path: Path, settled: Callable[[], NodeSettings]) -> None:
        self._path = path
        self._settled = settled
        self._seen = self._stamp()
        self._look_at = 0.0

    def due(self) -> bool:
        """Whether the file has changed since it was looked at last, about once a second."""
        if monotonic() < self._look_at:
            return False
        self._look_at = monotonic() + 1.0
        before, self._seen = self._seen, self._stamp()
        return self._seen != before and self._seen is not None

    def __call__(self, node: Node) -> None:
        """Have the node follow the file as it is now; if that cannot be, it follows what it did before."""
        try:
            node.reload(self._settled())
        except (InvalidSettings, InvalidTask) as error:
            node.events.emit(SettingsRefused(why=str(error)))

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


class Signals:
    """What the operating system tells the node, done in the main thread."""

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
        """Until the node has ended. The short naps let Python run the signal handlers."""
        while not self._node.ended.wait(0.2):
            if self._reload is not None and (self._hung_up or self._reload.due()):
                self._hung_up = False
                self._reload(self._node)

    def _hang_up(self, _number: int, _frame: FrameType | None) -> None:
        self._hung_up = True

    def _resize(self, by: int) -> None:
        threading.Thread(target=self._node.grow, args=(by,)).start()


def _pools(known: Sequence[PoolSettings], named: Sequence[str]) -> list[PoolSettings]:
    """The pools of this node: those named, else those of the file, else one."""
    return [_pool(text, known) for text in named] or list(known) or [PoolSettings()]


def _changed(pool: PoolSettings, flags: dict[str, Any], wait: str | None) -> PoolSettings:
    """A pool with what the command line says of all pools."""
    if wait is not None:
        pool = replace(pool, scale=replace(pool.scale, wait=duration(wait, "wait").total_seconds()))
    if "size" not in flags and ("min" in flags or "max" in flags):
        flags = {**flags, "size": None}
    return replace(pool, **flags)


def _pool(text: str, known: Sequence[PoolSettings]) -> PoolSettings:
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


def _limit(text: str) -> timedelta | None:
    return duration(float(text) if text.replace(".", "").isdigit() else text, "drain_timeout") or None


def _described(pools: Sequence[PoolSettings]) -> str:
    return ", ".join(f"{pool.name} ({_size(pool)}×{pool.threads} for {', '.join(pool.queues)})" for pool in pools)


def _size(pool: PoolSettings) -> str:
    return str(pool.size) if pool.size is not None else f"{pool.floor} to {pool.ceiling}"

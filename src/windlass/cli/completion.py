"""`windlass completion`: shell completion for commands, options and names in the store.

Completion offers nothing if the store does not answer within half a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

if TYPE_CHECKING:
    from windlass.stores.protocol import Store

TIMEOUT_SECONDS = 0.5
_HINTS = {
    "bash": 'eval "$(windlass completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(windlass completion zsh)"    # in ~/.zshrc',
    "fish": "windlass completion fish > ~/.config/fish/completions/windlass.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_HINTS)))
def completion(shell: str) -> None:
    """Print the shell code that enables completion."""
    from windlass.cli.main import main

    found = get_completion_class(shell)
    assert found is not None, shell
    click.echo(found(main, {}, "windlass", "_WINDLASS_COMPLETE").source())
    click.echo(_HINTS[shell], err=True)


def complete_queue(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of queues."""

    def names(url: str | None) -> Iterable[str]:
        store = _open(url)
        return {queue.name for queue in store.queues()} | {count.queue for count in store.counts()}

    return _complete(context, incomplete, names)


def complete_tenant(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of tenants."""
    return _complete(context, incomplete, lambda url: {count.tenant for count in _open(url).counts()})


def complete_handler(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of handlers."""
    return _complete(context, incomplete, lambda url: {handler.name for handler in _open(url).handlers()})


def complete_cron(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of crons."""
    return _complete(context, incomplete, lambda url: {cron.info.name for cron in _open(url).crons()})


def complete_pool(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of pools."""
    return _complete(context, incomplete, lambda url: {control.name for control in _open(url).controls("pool")})


def complete_node(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of running nodes."""
    return _complete(context, incomplete, lambda url: {node.node for node in _open(url).sessions() if not node.lost})


def complete_task(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the ids of the newest tasks."""

    def ids(url: str | None) -> Iterable[str]:
        from windlass.stores.protocol import Filter

        return {str(task.id) for task in _open(url).find(Filter(), limit=100).tasks}

    return _complete(context, incomplete, ids)


def _complete(context: click.Context, incomplete: str, names: Callable[[str | None], Iterable[str]]) -> list[str]:
    url: str | None = context.params.get("store_url")
    return [name for name in _read_in_time(lambda: names(url)) if name.startswith(incomplete)]


def _read_in_time(names: Callable[[], Iterable[str]]) -> list[str]:
    """Return the names, or nothing after the timeout. A thread that is late ends with the process."""
    found: list[str] = []

    def read() -> None:
        try:
            found.extend(sorted(names()))
        except Exception:  # noqa: BLE001 - an error at the prompt would only disturb; offer nothing
            found.clear()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    reading.join(TIMEOUT_SECONDS)
    return [] if reading.is_alive() else found


def _open(url: str | None) -> Store:
    from windlass.store_choice import choose_store
    from windlass.wiring import open_store

    return open_store(choose_store(url).url, create=False)

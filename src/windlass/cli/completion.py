"""`windlass completion`: the words that a shell offers, those that only the store knows included.

Whoever presses tab does not wait: after half a second, or when the store cannot be reached, nothing is offered.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from windlass.cli.output import print_note

if TYPE_CHECKING:
    from windlass.stores.protocol import Store

PATIENCE = 0.5
"""Seconds."""
_HINTS = {
    "bash": 'eval "$(windlass completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(windlass completion zsh)"    # in ~/.zshrc',
    "fish": "windlass completion fish > ~/.config/fish/completions/windlass.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_HINTS)))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands, options, and the names of queues, pools, handlers and crons."""
    from windlass.cli.main import main

    found = get_completion_class(shell)
    assert found is not None, shell
    click.echo(found(main, {}, "windlass", "_WINDLASS_COMPLETE").source())
    print_note(_HINTS[shell])


def complete_queue(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of queues."""

    def names(url: str | None) -> Iterable[str]:
        store = _opened(url)
        return {queue.name for queue in store.queues()} | {count.queue for count in store.counts()}

    return _offered(context, incomplete, names)


def complete_handler(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of handlers."""
    return _offered(context, incomplete, lambda url: {handler.name for handler in _opened(url).handlers()})


def complete_cron(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of crons."""
    return _offered(context, incomplete, lambda url: {cron.info.name for cron in _opened(url).crons()})


def complete_pool(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of pools that were ever sized."""
    return _offered(context, incomplete, lambda url: {control.name for control in _opened(url).controls("pool")})


def complete_task(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The ids of the newest tasks."""

    def ids(url: str | None) -> Iterable[str]:
        from windlass.stores.protocol import Filter

        return {str(task.id) for task in _opened(url).find(Filter(), limit=100).tasks}

    return _offered(context, incomplete, ids)


def _offered(context: click.Context, incomplete: str, names: Callable[[str | None], Iterable[str]]) -> list[str]:
    url: str | None = context.params.get("store_url") or os.environ.get("WINDLASS_URL")
    return [name for name in _in_time(lambda: names(url)) if name.startswith(incomplete)]


def _in_time(names: Callable[[], Iterable[str]]) -> list[str]:
    """The names, if they come soon. A thread that is late is left behind: the process ends at once."""
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(sorted(names()))
        except Exception:  # noqa: BLE001 - at the prompt there is nobody to tell, and no words are a fair answer
            found.clear()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return [] if asking.is_alive() else found


def _opened(url: str | None) -> Store:
    from windlass.cli.stores import chosen
    from windlass.wiring import DEFAULT_URL, open_store

    url = chosen(url) or DEFAULT_URL
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        raise FileNotFoundError(url)  # To look for names must not make a file.
    return open_store(url)

"""What every command has that speaks to a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from windlass.stores.protocol import Store
from windlass.wiring import open_store

store_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="WINDLASS_URL",
    help="Where the tasks live: sqlite:///tasks.db or postgresql://…  [default: $WINDLASS_URL, else windlass.db here]",
)

json_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs."
)


def opened(url: str | None) -> Store:
    """The store that a URL names, closed when the command ends."""
    store = open_store(url)
    click.get_current_context().call_on_close(store.close)
    return store

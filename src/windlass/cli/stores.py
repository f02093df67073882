"""The option that every command which speaks to a store has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

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

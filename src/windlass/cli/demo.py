"""`windlass demo`: the same as `make demo`."""

from __future__ import annotations

import click

from windlass import demo as shop
from windlass.cli.stores import store_option


@click.command()
@store_option
def demo(store_url: str | None) -> None:
    """See the engine at work on a small shop."""
    raise SystemExit(shop.main([] if store_url is None else ["--store", store_url]))

"""`windlass top`: the terminal pages, if what draws them is installed."""

from __future__ import annotations

import click

from windlass.cli.audit_options import by_option, somebody
from windlass.cli.stores import chosen, given_clock, store_option
from windlass.wiring import open_store


@click.command()
@store_option
@by_option
@click.option("--read-only", is_flag=True, help="Only look: no key changes anything.")
@click.option("--light", is_flag=True, help="For a light ground.  [default: dark; the key d changes it]")
def top(store_url: str | None, by: str | None, read_only: bool, light: bool) -> None:
    """Live pages in the terminal: how it goes now, tasks, queues, pools, nodes. The key ? shows the keys."""
    try:
        from windlass.tui.app import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise click.ClickException("top draws with textual, which is not here: pip install windlass[tui]") from error
    url, clock = chosen(store_url), given_clock()
    Top(lambda: open_store(url, clock=clock), by=somebody(by), writable=not read_only, light=light).run()

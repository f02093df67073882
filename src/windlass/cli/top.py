"""`windlass top`: open the terminal UI, if textual is installed."""

from __future__ import annotations

import click

from windlass.cli.options import by_option, choose_url, read_only_option, test_clock, url_option
from windlass.distribution import install_hint
from windlass.operations.author import user_name
from windlass.wiring import open_store


@click.command()
@url_option
@by_option
@read_only_option
@click.option("--light", is_flag=True, help="Use light colors; the key d switches.")
def top(store_url: str | None, by: str | None, read_only: bool, light: bool) -> None:
    """Watch and control tasks, queues, pools and nodes in the terminal.

    Press ? for the keys.
    """
    try:
        from windlass.tui.app import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise click.ClickException(f"windlass top needs textual: {install_hint('tui')}") from error
    url, clock = choose_url(store_url), test_clock()
    Top(
        lambda: open_store(url, clock=clock, create=False), by=by or user_name(), writable=not read_only, light=light
    ).run()

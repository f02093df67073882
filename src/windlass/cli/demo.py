"""`windlass demo`: run a demo shop."""

from __future__ import annotations

from pathlib import Path

import click

from windlass.cli.options import seconds_option, url_option
from windlass.config import InvalidSettings
from windlass.wiring import open_store

FILE = Path("windlass-demo.db")


@click.command()
@url_option
@seconds_option(click.FloatRange(1))
@click.option("--resume", is_flag=True, help="Continue with the tasks of the last demo.")
def demo(store_url: str | None, seconds: float | None, resume: bool) -> None:
    """Run a demo shop: a rush, a bug, a killed worker and a drain."""
    from windlass.demo.demo_run import DemoRun

    if store_url is not None and store_url.startswith("memory"):
        raise InvalidSettings(
            "settings: store=memory: a memory store lives in one process. Use a SQLite file or PostgreSQL."
        )
    if store_url is None and not resume:
        for part in FILE.parent.glob(f"{FILE.name}*"):
            part.unlink()
    url = store_url or f"sqlite:///{FILE}"
    raise SystemExit(DemoRun(url, lambda: open_store(url), seconds).run())

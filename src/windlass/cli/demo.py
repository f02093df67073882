"""`windlass demo`: a small shop on the embedded store, or on another one."""

from __future__ import annotations

from pathlib import Path

import click

from windlass.cli.stores import store_option
from windlass.config import InvalidSettings
from windlass.wiring import open_store

FILE = Path("windlass-demo.db")


@click.command()
@store_option
@click.option("--seconds", type=click.FloatRange(1), help="End by itself after so long.  [default: at Ctrl-C]")
@click.option("--resume", is_flag=True, help="Go on with the tasks of the last demo.")
def demo(store_url: str | None, seconds: float | None, resume: bool) -> None:
    """See the engine at work on a small shop: a rush, a bug, a killed worker, a drain that loses nothing."""
    from windlass.demo.demo_run import DemoRun

    if store_url is not None and store_url.startswith("memory"):
        raise InvalidSettings("settings: store=memory: lives in one process; a node needs a file or PostgreSQL")
    if store_url is None and not resume:
        for part in FILE.parent.glob(f"{FILE.name}*"):
            part.unlink()
    url = store_url or f"sqlite:///{FILE}"
    raise SystemExit(DemoRun(url, lambda: open_store(url), seconds).run())

"""What every command has that speaks to a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from windlass.clock import Clock, SystemClock
from windlass.stores.protocol import Store
from windlass.wiring import open_store

store_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="WINDLASS_URL",
    help="Where the tasks live: sqlite:///tasks.db or postgresql://…  "
    "[default: $WINDLASS_URL, else what windlass.yaml says, else windlass.db here]",
)

FORM = "windlass.form"
"""Where the context keeps in which form a program wants its answer."""


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json` and `--jsonl`, as `as_json`; `print_json` knows which of them it was."""
    for name, text in (("jsonl", "Print JSON, one object a line."), ("json", "Print JSON for programs.")):
        command = click.option(f"--{name}", "as_json", flag_value=name, default=None, callback=_noted, help=text)(
            command
        )
    return command


def _noted(context: click.Context, _option: click.Parameter, form: str | None) -> bool:
    context.meta[FORM] = form
    return form is not None


def opened(url: str | None) -> Store:
    """The store that a URL names, closed when the command ends."""
    store = open_store(chosen(url), clock=given_clock())
    click.get_current_context().call_on_close(store.close)
    return store


def chosen(url: str | None) -> str | None:
    """The flag or the environment's URL, else that of `windlass.yaml` here; None for the default."""
    from windlass.config import read_settings

    return url or read_settings().store


def clock() -> Clock:
    """The clock by which times are shown: the machine's, unless the caller of the command has brought one."""
    return given_clock() or SystemClock()


def given_clock() -> Clock | None:
    """What stands in for the machine's clock: tests pass it as the context's object."""
    return click.get_current_context().find_root().obj

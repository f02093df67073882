"""`windlass tenants`: on whose behalf tasks are there, and where they stand."""

from __future__ import annotations

import click

from windlass.cli.output import form_options, print_json_form, print_note, table
from windlass.cli.stores import opened, store_option
from windlass.core.lifecycle import State
from windlass.operations.legacy_tenants import by_tenant

_SHOWN = (State.RUNNABLE, State.LEASED, State.WAITING, State.SCHEDULED, State.RETRYING, State.COMPLETED, State.FAILED)


@click.group()
def tenants() -> None:
    """See on whose behalf tasks are there."""


@tenants.command("ls")
@store_option
@form_options
def ls(store_url: str | None, form: str | None) -> None:
    """Every tenant that has tasks: how many in each state, and in which queues."""
    rows = by_tenant(opened(store_url).counts())
    if print_json_form(form, rows):
        return
    heads = ("tenant", *(f"#{state.value}" for state in _SHOWN), "queues")
    table(heads, [[row.name, *(f"{row.tasks.get(state, 0):,}" for state in _SHOWN), _few(row.queues)] for row in rows])
    if not rows:
        print_note("no tenant has a task yet")


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

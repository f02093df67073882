"""`windlass tenants`: list tenants."""

from __future__ import annotations

import click

from windlass.cli.options import json_options, store_option
from windlass.cli.output import STATES, format_few, print_json, print_table
from windlass.core.lifecycle import State
from windlass.operations import tenants as operations
from windlass.operations.access import Access
from windlass.wire.tenants import tenant_shape

_SHOWN = (*STATES[:-1], State.COMPLETED, State.FAILED)


@click.group()
def tenants() -> None:
    """List tenants."""


@tenants.command("ls")
@store_option
@json_options
def ls(access: Access, form: str | None) -> None:
    """List tenants with their queues and task counts."""
    found = operations.get_all(access)
    if print_json(form, [tenant_shape(each) for each in found]):
        return
    heads = ("tenant", *(f"#{state.value}" for state in _SHOWN), "queues")
    rows = [
        [each.name, *(f"{each.tasks.get(state, 0):,}" for state in _SHOWN), format_few(each.queues)] for each in found
    ]
    print_table(heads, rows, "No tenant has tasks yet.")

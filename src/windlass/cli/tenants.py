"""`windlass tenants`: on whose behalf tasks are there, and where they stand."""

from __future__ import annotations

from collections.abc import Iterable

import click
from msgspec import Struct

from windlass.cli.output import for_programs, form_options, say, table
from windlass.cli.stores import opened, store_option
from windlass.core.lifecycle import State
from windlass.stores.protocol import Count

_SHOWN = (State.RUNNABLE, State.LEASED, State.WAITING, State.SCHEDULED, State.RETRYING, State.COMPLETED, State.FAILED)


class TenantRow(Struct, frozen=True, kw_only=True):
    """A tenant: its tasks by state, over all queues, and the queues in which it has any."""

    name: str
    tasks: dict[str, int]
    queues: list[str]


@click.group()
def tenants() -> None:
    """See on whose behalf tasks are there."""


@tenants.command("ls")
@store_option
@form_options
def ls(store_url: str | None, form: str | None) -> None:
    """Every tenant that has tasks: how many in each state, and in which queues."""
    rows = by_tenant(opened(store_url).counts())
    if for_programs(form, rows):
        return
    heads = ("tenant", *(f"#{state.value}" for state in _SHOWN), "queues")
    table(heads, [[row.name, *(f"{row.tasks.get(state, 0):,}" for state in _SHOWN), _few(row.queues)] for row in rows])
    if not rows:
        say("no tenant has a task yet")


def by_tenant(counts: Iterable[Count]) -> list[TenantRow]:
    """Counts by queue, tenant and state, put together for each tenant, by name."""
    tasks: dict[str, dict[str, int]] = {}
    queues: dict[str, set[str]] = {}
    for count in counts:
        if count.tasks <= 0:  # A sum of deltas may be passing through zero.
            continue
        states = tasks.setdefault(count.tenant, {})
        states[count.state.value] = states.get(count.state.value, 0) + count.tasks
        queues.setdefault(count.tenant, set()).add(count.queue)
    return [TenantRow(name=name, tasks=tasks[name], queues=sorted(queues[name])) for name in sorted(tasks)]


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

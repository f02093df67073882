"""Crons as people see and change them: when they run next, running one now, pausing and resuming."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim
from msgspec import Struct
from msgspec.structs import replace

from windlass.clock import entropy
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.manifest import CronState, cron_key
from windlass.core.task import Task, TaskId
from windlass.core.times import to_datetime
from windlass.errors import UnknownCron
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.handler_catalog import UnknownHandler
from windlass.operations.node_about import published_crons
from windlass.operations.redact import redact_cron, redact_task
from windlass.stores.protocol import Receipt


class CronView(Struct, frozen=True, kw_only=True):
    """A cron, and when it runs next."""

    state: CronState
    next: datetime | None
    """In the cron's own time zone; None while it is paused, or no longer in the code."""
    in_code: bool | None = None
    """Whether the app of a live node has it; None if no live node says which crons it has."""


def get_all(access: Access) -> list[CronView]:
    """Return every cron that was ever published, by name."""
    published = _published(access)
    return [_view(access, cron, published) for cron in access.whole_store.crons()]


def get(access: Access, name: str) -> CronView:
    """Return one cron. Raise `UnknownCron` if it was never published."""
    return _view(access, _find(access, name), _published(access))


def next_times(access: Access, name: str, number: int) -> list[datetime]:
    """Return the next times at which a cron runs, or would run if it were not paused."""
    return _next_times(access, _find(access, name), number)


def find_last_runs(access: Access, views: Sequence[CronView]) -> dict[str, Task]:
    """Return the task of each cron's latest scheduled run, by the cron's name. Runs that were skipped have none."""
    ids = {view.state.info.name: id for view in views if (id := _last_run_id(access, view.state)) is not None}
    found = access.whole_store.get(list(ids.values())) if ids else []
    return {name: redact_task(task, access.catalog) for name, task in zip(ids, found, strict=True) if task is not None}


def run(access: Access, name: str, author: Author) -> Receipt:
    """Submit a cron's task now. Its schedule does not change."""
    info = _find(access, name).info
    new = access.catalog.info(info.handler).new_task(msgspec.json.decode(info.args))
    new = replace(new, id=fresh_id(access.now, entropy(1)()))
    entry = author.entry(f"cron/{name}", "ran", f"ran cron {name} by hand", task=new.id)
    [receipt] = access.store.submit([new], entries=[entry])
    return receipt


def pause(access: Access, name: str, author: Author) -> CronView:
    """Stop firing a cron until it is resumed."""
    entry = author.entry(f"cron/{name}", "paused", f"paused cron {name}")
    access.whole_store.pause_cron(name, True, by=author.by, why=author.why, entries=[entry])
    return get(access, name)


def resume(access: Access, name: str, author: Author) -> CronView:
    """Fire a cron again. Its misfire policy decides about the times that it missed."""
    entry = author.entry(f"cron/{name}", "resumed", f"resumed cron {name}")
    access.whole_store.pause_cron(name, False, entries=[entry])
    return get(access, name)


def remove(access: Access, name: str, author: Author) -> CronView:
    """Remove a cron. A node whose app still has it publishes it again when it starts."""
    before = get(access, name)
    entry = author.entry(f"cron/{name}", "removed", f"removed cron {name}")
    access.whole_store.remove_cron(name, entries=[entry])
    return before


def _find(access: Access, name: str) -> CronState:
    found = next((cron for cron in access.whole_store.crons() if cron.info.name == name), None)
    if found is None:
        raise UnknownCron(name)
    return found


def _last_run_id(access: Access, cron: CronState) -> TaskId | None:
    """Return the id of the task that was submitted for the latest scheduled time; None if that is unknown."""
    if cron.fired is None:
        return None
    try:
        template = access.catalog.info(cron.info.handler).new_task_template()
    except UnknownHandler:
        return None
    return keyed_id(template.tenant, template.workflow, cron_key(cron.info.name, cron.fired))


def _published(access: Access) -> frozenset[str] | None:
    """Return the crons of all live nodes; None if none of them says which it has."""
    found = [published_crons(session) for session in access.store.sessions() if not session.lost]
    named = [names for names in found if names is not None]
    return frozenset(name for names in named for name in names) if named else None


def _view(access: Access, cron: CronState, published: frozenset[str] | None) -> CronView:
    in_code = None if published is None else cron.info.name in published
    stopped = cron.paused or in_code is False
    following = None if stopped else next(iter(_next_times(access, cron, 1)), None)
    return CronView(state=redact_cron(cron, access.catalog), next=following, in_code=in_code)


def _next_times(access: Access, cron: CronState, number: int) -> list[datetime]:
    now = to_datetime(access.now).astimezone(ZoneInfo(cron.info.timezone))
    return list(islice(CronSim(cron.info.schedule, now), number))

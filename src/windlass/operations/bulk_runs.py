"""How far long bulk actions are. A server runs the action and writes this to the store, where every server reads it."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.times import Micros
from windlass.errors import Refused
from windlass.operations.access import Access
from windlass.operations.bulk import Verb
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.redaction import redact_text
from windlass.stores.protocol import Store

KIND = "bulk"
"""The kind of the controls that say how far bulk actions are."""
KEPT: Micros = 24 * 3_600 * 1_000_000
"""How long the end of an action can be read. The next long action removes what is older."""
SILENT: Micros = 30 * 1_000_000
"""An action that was not written for this long has ended with its server."""


class BulkRun(Struct, frozen=True, kw_only=True):
    """How far a bulk action is, and who started it."""

    id: str
    verb: Verb
    q: str
    """The filter, for the way back; empty for tasks that were picked."""
    by: str
    tenant: str | None
    queue: str | None
    started: Micros
    at: Micros
    """When this was written."""
    total: int = 0
    exact: bool = True
    counted: bool = False
    """False while the tasks are being counted; nothing has changed then."""
    done: int = 0
    in_steps: bool = False
    """True if it goes in batches, and can be stopped between them."""
    stop: bool = False
    """True if someone asked to stop it."""
    ended: bool = False
    problem: str = ""
    """Why it ended early."""
    undo: list[int] = []
    """The audit entries that can be undone."""

    def is_running(self, now: Micros) -> bool:
        """Return True unless it has ended, or its server is gone."""
        return not self.ended and now < self.at + SILENT

    def can_stop(self, now: Micros) -> bool:
        """Return True if a request to stop can still have an effect."""
        return self.is_running(now) and not self.stop and (self.in_steps or not self.counted)


def get(access: Access, id: str) -> BulkRun:
    """Return a bulk action. Callers who are limited to a tenant or a queue see only their own."""
    control = find_control(access.store, KIND, id)
    run = None if control is None else msgspec.json.decode(control.value, type=BulkRun)
    if run is None or not _can_see(access, run):
        raise Refused("not_found", f"No long action has the id {id!r}. Its result is kept for a day.")
    return run


def get_running(access: Access) -> list[BulkRun]:
    """Return the bulk actions that are running, the newest first. A limited caller gets none: find them by id."""
    if access.caller.limited:
        return []
    found = [msgspec.json.decode(each.value, type=BulkRun) for each in access.store.controls(KIND)]
    return sorted((run for run in found if run.is_running(access.now)), key=lambda run: run.started, reverse=True)


def ask_to_stop(access: Access, id: str) -> BulkRun:
    """Ask to stop a bulk action after its current batch."""
    return save(access.store, replace(get(access, id), stop=True))


def save(store: Store, run: BulkRun) -> BulkRun:
    """Write how far an action is. A request to stop that someone else has written stays. Return what was written.

    Secrets that were typed into the filter, or that an error repeats, are not stored.
    """
    run = replace(run, q=redact_text(run.q), problem=redact_text(run.problem))

    def attempt() -> BulkRun:
        control = find_control(store, KIND, run.id)
        found = None if control is None else msgspec.json.decode(control.value, type=BulkRun)
        # A request to stop must not hide that the action has ended in between.
        written = run if found is None else replace(found if found.ended else run, stop=run.stop or found.stop)
        text = msgspec.json.encode(written).decode()
        write_control(store, KIND, run.id, text, version=0 if control is None else control.version, entries=[])
        return written

    return retry_on_conflict(f"bulk {run.id}", attempt)


def drop_old(access: Access) -> None:
    """Remove what actions left that ended long ago."""
    for control in access.store.controls(KIND):
        if msgspec.json.decode(control.value, type=BulkRun).at < access.now - KEPT:
            access.store.put_control(KIND, control.name, None, expect=control.version, entries=[])


def _can_see(access: Access, run: BulkRun) -> bool:
    caller = access.caller
    return not caller.limited or (run.by, run.tenant, run.queue) == (caller.name, caller.tenant, caller.queue)

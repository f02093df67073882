"""Crons as people see and change them: when they run next, creating them at run time, running one now, pausing.

A cron in the code of an app can be paused and run here, and is changed in the code. A caller who is limited to a tenant
or a queue sees and changes only crons that were created at run time and whose tasks that caller may submit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.clock import entropy
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.manifest import CronInfo, CronState, cron_key
from windlass.core.names import check_type
from windlass.core.payload import encode_args, json_object
from windlass.core.schedule import check_cron, find_times
from windlass.core.task import Task, TaskId
from windlass.core.times import to_datetime, when
from windlass.core.validation import check_task
from windlass.errors import InvalidTask, Refused, UnknownCron
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.operations.conflicts import retry_on_conflict
from windlass.operations.handler_catalog import UnknownHandler
from windlass.operations.node_about import read_about
from windlass.operations.redact import keep_hidden, redact_cron, redact_task
from windlass.operations.reversal import FieldChange, Fields, Reversal, compare_fields, to_fields
from windlass.redaction import redact
from windlass.stores.protocol import Receipt

CHANGEABLE = (
    "handler",
    "schedule",
    "timezone",
    "misfire",
    "args",
    "queue",
    "tenant",
    "priority",
    "start",
    "end",
)
"""What can be changed of a cron that was created at run time."""


ARGS = "args_fingerprint"
"""The field of a change in the audit log that stands for arguments."""


class NewCron(Struct, frozen=True, kw_only=True):
    """A cron to create at run time."""

    name: str
    handler: str
    schedule: str
    """A cron expression, an alias such as "@daily", or an interval such as "every 90s"."""
    args: Mapping[str, Any] = {}
    timezone: str = "UTC"
    misfire: str = "last"
    queue: str | None = None
    """None for the queue of the handler."""
    tenant: str | None = None
    priority: int | None = None
    start: datetime | timedelta | None = None
    """The first possible time, and the anchor of an interval."""
    end: datetime | timedelta | None = None
    """The last possible time."""
    paused: bool = False


class CronView(Struct, frozen=True, kw_only=True):
    """A cron, and when it runs next."""

    state: CronState
    next: datetime | None
    """In the cron's own time zone; None while it is paused, or if no node fires it."""
    in_code: bool | None = None
    """Whether the app of a live node has it; None if no live node says so, or if it was created at run time."""
    problem: str | None = None
    """Why no node fires it, if it is not paused."""


class _Nodes(Struct, frozen=True):
    """What the live nodes that fire crons have; None if there is no such node."""

    crons: Collection[str] | None
    handlers: Collection[str] | None


def get_all(access: Access) -> list[CronView]:
    """Return the crons that the caller may see, by name."""
    nodes = _read_nodes(access)
    return [_view(access, cron, nodes) for cron in access.store.crons() if _can_see(access, cron)]


def get(access: Access, name: str) -> CronView:
    """Return one cron. Raise `UnknownCron` if there is none that the caller may see."""
    return _view(access, _find(access, name), _read_nodes(access))


def next_times(access: Access, name: str, number: int) -> list[datetime]:
    """Return the next times at which a cron runs, or would run if it were not paused."""
    return _next_times(access, _find(access, name), number)


def find_last_runs(access: Access, views: Sequence[CronView]) -> dict[str, Task]:
    """Return the task of each cron's latest scheduled run, by the cron's name. Runs that were skipped have none."""
    ids = {view.state.info.name: id for view in views if (id := _last_run_id(access, view.state)) is not None}
    found = access.store.get(list(ids.values())) if ids else []
    return {name: redact_task(task, access.catalog) for name, task in zip(ids, found, strict=True) if task is not None}


def create(access: Access, new: NewCron, author: Author, *, replace: bool = False) -> CronView:
    """Create a cron at run time. Raise `CronExists` unless `replace` allows to change the one of this name.

    As in `change`, hidden arguments of the one that is replaced can be given as they are shown.
    """
    _check_scope(access)
    given = {name: getattr(new, name) for name in CHANGEABLE}

    def attempt() -> None:
        known = next(iter(access.store.crons(new.name)), None) if replace else None
        if known is not None and not _can_see(access, known):
            raise UnknownCron(new.name)
        blank = CronInfo(name=new.name, handler="", schedule="")
        cron = _checked(access, blank, given, stored=None if known is None else known.info)
        expect = 0 if known is None else known.version
        action = "created" if known is None else "changed"
        text = f"{action} cron {new.name}: {cron.schedule} ({cron.timezone}) runs {cron.handler}"
        pause = (author.by, author.why) if new.paused else None
        entries = [author.entry(f"cron/{new.name}", action, text, **_undo_data(access, known and known.info, cron))]
        access.store.put_cron(cron, expect=expect, pause=pause, entries=entries)

    retry_on_conflict(f"cron {new.name}", attempt)
    return get(access, new.name)


def change(
    access: Access, name: str, changes: Mapping[str, Any], author: Author, *, expect: int | None = None
) -> CronView:
    """Change a cron that was created at run time. Fields that are left out stay; None removes an optional one.

    Secrets among its arguments are shown as `[redacted]`. Where that comes back unchanged, the stored value stays.
    With `expect`, only if it is still in that version: otherwise raise `Conflict`.
    """
    unknown = changes.keys() - set(CHANGEABLE)
    if unknown or not changes:
        what = f"{min(unknown)!r} cannot be changed" if unknown else "nothing to change was given"
        raise InvalidTask(f"Cron {name!r}: {what}. Give some of {', '.join(CHANGEABLE)}.")
    _check_scope(access)

    def attempt() -> None:
        known = _find(access, name)
        version = known.version if expect is None else expect
        cron = known.info if not known.at_run_time else _checked(access, known.info, changes, stored=known.info)
        shown = [f"{field}={given}" for field, given in changes.items() if field != "args"]
        shown += ["its arguments"] if "args" in changes else []
        text = f"set {', '.join(shown)} of cron {name}"
        entry = author.entry(f"cron/{name}", "changed", text, **_undo_data(access, known.info, cron))
        access.store.put_cron(cron, expect=version, entries=[entry])

    if expect is None:
        retry_on_conflict(f"cron {name}", attempt)
    else:
        attempt()
    return get(access, name)


def run(access: Access, name: str, author: Author) -> Receipt:
    """Submit a cron's task now. Its schedule does not change."""
    info = _find(access, name).info
    new = access.catalog.info(info.handler).new_task(msgspec.json.decode(info.args), info.task_fields())
    new = replace(new, id=fresh_id(access.now, entropy(1)()))
    entry = author.entry(f"cron/{name}", "ran", f"ran cron {name} by hand", task=new.id)
    [receipt] = access.store.submit([new], entries=[entry])
    return receipt


def pause(access: Access, name: str, author: Author, *, expect: int | None = None) -> CronView:
    """Stop firing a cron until it is resumed."""
    return _pause(access, name, author, (author.by, author.why), expect)


def resume(access: Access, name: str, author: Author, *, expect: int | None = None) -> CronView:
    """Fire a cron again. Its misfire policy decides about the times that it missed."""
    return _pause(access, name, author, None, expect)


def _pause(access: Access, name: str, author: Author, pause: tuple[str, str] | None, expect: int | None) -> CronView:
    by, why = pause or ("", "")
    action = "resumed" if pause is None else "paused"

    def attempt() -> None:
        known = _find(access, name)
        after = replace(known, paused=pause is not None, paused_by=pause and by, paused_why=pause and why)
        undo = compare_fields(_pause_fields(known), _pause_fields(after))
        entry = author.entry(f"cron/{name}", action, f"{action} cron {name}", undo=undo)
        version = known.version if expect is None else expect
        access.store.pause_cron(name, pause is not None, by=by, why=why, expect=version, entries=[entry])

    if expect is None:
        retry_on_conflict(f"cron {name}", attempt)
    else:
        attempt()
    return get(access, name)


def remove(access: Access, name: str, author: Author, *, expect: int | None = None) -> CronView:
    """Remove a cron: it does not fire any more. A node whose app still has it publishes it again when it starts."""
    before = get(access, name)
    entry = author.entry(f"cron/{name}", "removed", f"removed cron {name}")
    access.store.remove_cron(name, expect=expect, entries=[entry])
    return before


def restore(access: Access, name: str, reversal: Reversal) -> None:
    """Undo a change of a cron: its pause, its settings, or its creation, which is to remove it."""

    def attempt() -> None:
        known = _find(access, name)
        present = {**_info_fields(known.info), **_pause_fields(known), ARGS: access.fingerprint(known.info.args)}
        restored = reversal.revert(present)
        entries = [reversal.note(present, restored)]
        if "handler" not in restored:
            # The arguments are gone with it, so this cannot be undone.
            access.store.remove_cron(name, expect=known.version, entries=[reversal.note_done()])
        elif not reversal.change.after.keys().isdisjoint(_pause_fields(known)):
            by, why = restored.get("paused_by") or "", restored.get("paused_why") or ""
            paused = restored["paused"]
            access.store.pause_cron(name, paused, by=by, why=why, expect=known.version, entries=entries)
        else:
            _check_scope(access)
            info = {field: restored.get(field) for field in _info_fields(known.info)}
            cron = msgspec.convert({**info, "name": name, "args": known.info.args}, CronInfo)
            if not _can_see(access, replace(known, info=cron)):
                raise UnknownCron(name)
            access.store.put_cron(cron, expect=known.version, entries=entries)

    retry_on_conflict(f"cron {name}", attempt)


def _undo_data(access: Access, before: CronInfo | None, after: CronInfo) -> dict[str, FieldChange]:
    """Return how to undo a change. The audit log does not keep arguments, which may be secret.

    A creation is not undone once its arguments were changed: they are stored nowhere else.
    """
    if before is None:
        return {"undo": compare_fields({}, {**_info_fields(after), ARGS: access.fingerprint(after.args)})}
    return {} if before.args != after.args else {"undo": compare_fields(_info_fields(before), _info_fields(after))}


def _info_fields(info: CronInfo) -> Fields:
    return {field: value for field, value in to_fields(info).items() if field not in ("name", "args")}


def _pause_fields(cron: CronState) -> Fields:
    return {field: getattr(cron, field) for field in ("paused", "paused_by", "paused_why")}


def _checked(
    access: Access, before: CronInfo, changes: Mapping[str, Any], *, stored: CronInfo | None = None
) -> CronInfo:
    """Return a cron with changes, if the caller may submit its tasks, its handler is known and takes its arguments.

    `stored` is the cron whose secrets stay where the arguments have them as they are shown.
    """
    fields = {name: value for name, value in changes.items() if name not in ("args", "start", "end")}
    fields |= {name: when(changes[name], access.now, name) for name in ("start", "end") if name in changes}
    handler = str(changes.get("handler", before.handler))
    args = changes.get("args")
    if "args" in changes:
        check_type("args", args, Mapping, "pass a dict of arguments by name")
    elif stored is not None and handler != stored.handler:
        # The new handler may not hide what the old one does, so this is checked like arguments that were given.
        args = redact(json_object(stored.args), access.catalog.parameters(stored.handler))
    if args is None:
        args = json_object(before.args)
    else:
        known = {} if stored is None else json_object(stored.args)
        args = keep_hidden(args, known, redact(known, access.catalog.parameters(handler)))
    cron = check_cron(replace(before, **fields, args=encode_args(args)))
    new = check_task(tasks.new_task(access, cron.handler, args, cron.task_fields()))
    # The handler's own queue may change later, and is then no longer the one that the caller may use.
    queue = cron.queue if access.caller.queue is None else new.queue
    return replace(cron, tenant=new.tenant, queue=queue)


def _check_scope(access: Access) -> None:
    if not access.caller.may(Scope.SUBMIT):
        name = access.caller.name
        raise Refused("forbidden", f"A cron submits tasks, and token {name!r} does not have the scope submit.")


def _find(access: Access, name: str) -> CronState:
    found = next(iter(access.store.crons(name)), None)
    if found is None or not _can_see(access, found):
        raise UnknownCron(name)
    return found


def _can_see(access: Access, cron: CronState) -> bool:
    caller = access.caller
    if not caller.limited:
        return True
    return cron.at_run_time and caller.tenant in (None, cron.info.tenant) and caller.queue in (None, cron.info.queue)


def _last_run_id(access: Access, cron: CronState) -> TaskId | None:
    """Return the id of the task that was submitted for the latest scheduled time; None if that is unknown."""
    if cron.fired is None:
        return None
    try:
        template = access.catalog.info(cron.info.handler).new_task_template()
    except UnknownHandler:
        return None
    return keyed_id(cron.info.tenant or template.tenant, template.workflow, cron_key(cron.info.name, cron.fired))


def _read_nodes(access: Access) -> _Nodes:
    about = [read_about(session) for session in access.store.sessions() if not session.lost]
    firing = [each for each in about if each.crons is not None]  # Workers over HTTP fire none, and do not say so.
    if not firing:
        return _Nodes(None, None)
    crons = {name for each in firing for name in each.crons or ()}
    return _Nodes(crons, {name for each in firing for name in each.handlers or ()})


def _view(access: Access, cron: CronState, nodes: _Nodes) -> CronView:
    in_code = None if nodes.crons is None or cron.at_run_time else cron.info.name in nodes.crons
    problem = "not in the code of any live node" if in_code is False else None
    if cron.at_run_time and nodes.handlers is not None and cron.info.handler not in nodes.handlers:
        problem = f"no live node has the handler {cron.info.handler}"
    following = None if cron.paused or problem else next(iter(_next_times(access, cron, 1)), None)
    if following is None and problem is None and not cron.paused:
        problem = "its last time has passed"
    shown = redact_cron(cron, access.catalog)
    return CronView(state=shown, next=following, in_code=in_code, problem=None if cron.paused else problem)


def _next_times(access: Access, cron: CronState, number: int) -> list[datetime]:
    zone = ZoneInfo(cron.info.timezone)
    return [to_datetime(moment).astimezone(zone) for moment in islice(find_times(cron.info, access.now), number)]

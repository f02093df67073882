"""The options that commands share, each defined once, and the values that commands get from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import click
from msgspec import Struct

from windlass.cli.completion import complete_handler, complete_queue, complete_tenant
from windlass.cli.output import STORE_META, format_count, print_note
from windlass.clock import Clock, SystemClock
from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.core.task import TaskId
from windlass.core.times import Micros, duration, to_instant
from windlass.errors import InvalidTask
from windlass.operations.access import Access
from windlass.operations.author import Author, user_name
from windlass.operations.presentation import Times
from windlass.store_choice import HOW_TO_CHOOSE, StoreChoice, choose_store
from windlass.stores.admin import DatabaseMissing
from windlass.stores.protocol import Filter, Selection, Store
from windlass.wiring import open_store

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def group_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def bundle_options(options: Decorator, names: Sequence[str], argument: str, build: Callable[..., object]) -> Decorator:
    """Return a decorator that adds options and passes them as one argument."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(*args: Any, **given: Any) -> Any:
            values = {name: given.pop(name) for name in names}
            return command(*args, **given, **{argument: build(**values)})

        return options(run)

    return decorate


# The store and the clock

STORE_HELP = "Store URL: sqlite:///tasks.db or postgresql://…"
url_option: Decorator = click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="WINDLASS_URL",
    help=f"{STORE_HELP}  [default: $WINDLASS_URL, then the store of windlass.yaml, then windlass.db]",
)
"""`--store`, passed as `store_url`."""


def open_chosen(url: str | None, *, create: bool = False) -> Store:
    """Open the store of a URL and close it when the command ends. Only with `create`, a new database is created.

    A command that may create a database creates it where something names it, never by default.
    """
    choice = choose(url)
    try:
        store = open_store(choice.url, clock=test_clock(), create=create and not choice.is_default)
    except DatabaseMissing as error:
        raise DatabaseMissing(f"No database at {choice}: {error} {HOW_TO_CHOOSE}") from error
    click.get_current_context().call_on_close(store.close)
    return store


def choose(url: str | None) -> StoreChoice:
    """Return the store of the given URL, the environment, windlass.yaml or the default. `--json` names it."""
    choice = choose_store(url)
    click.get_current_context().meta.setdefault(STORE_META, choice.label)
    return choice


def choose_url(url: str | None) -> str:
    """Return the URL of the chosen store."""
    return choose(url).url


def clock() -> Clock:
    """Return the clock to show times by."""
    return test_clock() or SystemClock()


def test_clock() -> Clock | None:
    """Return the clock that a test passed as the context's object; None for the machine's clock."""
    return click.get_current_context().find_root().obj


def open_access(store_url: str | None, *, create: bool = False) -> Access:
    """Open the store of a URL for the operations of a command."""
    return Access(open_chosen(store_url, create=create), clock=clock())


store_option: Decorator = bundle_options(url_option, ["store_url"], "access", open_access)
"""`--store`, passed as `access` to the open store. The database must exist."""
new_store_option: Decorator = bundle_options(url_option, ["store_url"], "access", partial(open_access, create=True))
"""`--store`, passed as `access` to the open store. A database that the URL, the environment or the file names may be
new."""


# Output

json_options: Decorator = group_options(
    click.option("--json", "form", flag_value="json", default=None, help="Print JSON."),
    click.option("--jsonl", "form", flag_value="jsonl", default=None, help="Print JSON, one object per line."),
)
"""`--json` and `--jsonl`, passed as `form`."""


def _times(_context: click.Context, _option: click.Parameter, value: str | None) -> Times:
    return Times(now=clock().now(), zone=None if value is None else find_zone(value))


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its name."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTask(f"tz={name!r} is not a time zone. Use a name such as Europe/Berlin.") from None


TZ_HELP = "Time zone, such as Europe/Berlin.  [default: $WINDLASS_TZ, then the machine's]"
tz_option: Decorator = click.option(
    "--tz", "times", metavar="ZONE", envvar="WINDLASS_TZ", callback=_times, help=TZ_HELP
)
"""`--tz`, passed as `times`."""


def limit_option(default: int | None = 50, most: int = 100_000) -> Decorator:
    """Return `--limit`, passed as `limit`."""
    kind = click.IntRange(1, most)
    return click.option("--limit", default=default, show_default=True, type=kind, help="Show at most this many.")


config_option: Decorator = click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="Settings file.  [default: windlass.yaml]"
)
"""`--config`, passed as `config_path`."""


# Changes: who, why, and whether to ask


by_option: Decorator = click.option("--by", help="Your name for the audit log.  [default: your account name]")
why_option: Decorator = click.option("--why", default="", help="Reason for the audit log.")


def _author(why: str, by: str | None) -> Author:
    return Author(by or user_name(), why)


def author_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--why` and `--by`, passed as `author`. After the command, say how to undo what it has changed."""

    @wraps(command)
    def run(*args: Any, author: Author, **given: Any) -> Any:
        access: Access | None = given.get("access")
        if access is None:
            return command(*args, author=author, **given)
        from windlass.operations import undo  # It imports all operations, so only changes pay for it.

        result = command(*args, author=author, **given)
        if numbers := undo.find_new(access, author.action_id):
            print_note(f"Undo: windlass audit undo {' '.join(map(str, numbers))}")
        return result

    return bundle_options(group_options(why_option, by_option), ["why", "by"], "author", _author)(run)


for_option: Decorator = click.option("--for", "lasts", metavar="TIME", help="Duration, such as 30m.")
"""`--for`, passed as `lasts`."""

create_option: Decorator = click.option("--create", is_flag=True, help="Accept a name that is not known yet.")
"""`--create`, passed as `create`."""

dry_run_option: Decorator = click.option("--dry-run", is_flag=True, help="Show what would be done and do nothing.")


class Consent(Struct, frozen=True, kw_only=True):
    """Whether to make a change: at once, after a question, or not at all."""

    yes: bool
    dry_run: bool

    def given(self, verb: str, count: int, *, exact: bool = True) -> bool:
        """Show how many tasks a change affects and return True if it may be made; `verb` is as in "cancel"."""
        number = format_count(count) if exact else f"at least {format_count(count)}"
        return self.given_for(f"{verb} {number}", ask=bool(count) or not exact)

    def given_for(self, what: str, *, ask: bool = True) -> bool:
        """Return True if the change may be made. Ask on a terminal; elsewhere `--yes` is required."""
        if self.dry_run:
            print_note(f"Would {what}. Nothing was done.")
            return False
        if self.yes or not ask:
            return True
        if not is_interactive():
            raise click.UsageError(f"This would {what}. Add --yes to do it, or --dry-run to only count.")
        return click.confirm(f"{what[0].upper()}{what[1:]}?", err=True)


def is_interactive() -> bool:
    """Return True if a person can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


consent_options: Decorator = bundle_options(
    group_options(click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation."), dry_run_option),
    ["yes", "dry_run"],
    "consent",
    Consent,
)
"""`--yes` and `--dry-run`, passed as `consent`."""


# Apps and pools


def app_option(default: str | None = None) -> Decorator:
    """Return `--app`, passed as `app`."""
    return click.option(
        "--app", default=default, show_default=True, metavar="MODULE:NAME", help="App, such as shop:app."
    )


def max_option(default: int | None = None) -> Decorator:
    """Return `--max`, passed as `max_workers`."""
    text = "Most workers of a pool on one node."
    return click.option("--max", "max_workers", type=int, default=default, show_default=True, help=text)


min_option: Decorator = click.option(
    "--min", "min_workers", type=int, help="Fewest workers of a pool that sizes itself."
)
wait_goal_option: Decorator = click.option(
    "--wait-goal", metavar="TIME", help="Longest time that a task should wait; pools size themselves by it."
)


def drain_timeout_option(default: str | None = None) -> Decorator:
    """Return `--drain-timeout`, passed as `drain_timeout`."""
    text = "How long a drain waits for running tasks; 0 waits for all of them."
    return click.option("--drain-timeout", default=default, show_default=True, metavar="TIME", help=text)


def seconds_option(kind: Any) -> Decorator:
    """Return `--seconds`, passed as `seconds`."""
    return click.option("--seconds", type=kind, help="Length of the run in seconds.")


read_only_option: Decorator = click.option("--read-only", is_flag=True, help="Allow no changes.")


# Times


def parse_when(text: str, field: str) -> datetime | timedelta:
    """Parse a duration from now, or an ISO 8601 time, which is in the machine's zone unless it names one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return duration(text, field)
    return moment if moment.tzinfo is not None else moment.astimezone()


def parse_since(text: str, now: Micros) -> Micros:
    """Parse the start of a period: a duration before now, or an ISO 8601 time."""
    found = parse_when(text, "since")
    return to_instant(found) if isinstance(found, datetime) else now - found // timedelta(microseconds=1)


_WHEN = "a duration from now, such as 5m, or a time."
at_option: Decorator = click.option("--at", metavar="WHEN", help=f"When to run: {_WHEN}")
deadline_option: Decorator = click.option("--deadline", metavar="WHEN", help=f"When to be done: {_WHEN}")
wait_timeout_option: Decorator = click.option(
    "--wait-timeout", metavar="TIME", help="Stop waiting after this time, with exit status 7."
)


def expires_option(default: str | None = None) -> Decorator:
    """Return `--expires`, passed as `expires`."""
    return click.option(
        "--expires", metavar="WHEN", default=default, show_default=True, help=f"When to expire: {_WHEN}"
    )


def since_option(default: str | None = None) -> Decorator:
    """Return `--since`, passed as `since`."""
    text = "Start: a duration ago, such as 2h, or a time."
    return click.option("--since", metavar="WHEN", default=default, show_default=True, help=text)


# Which tasks

_CONDITION = re.compile(r"-?[a-z][\w.]*(?:[:~=]|[<>]=?)")
_SHIELD = "\0"

priority_option: Decorator = click.option("--priority", type=int, help="Priority; a higher number runs first.")
unchecked_option: Decorator = click.option(
    "--unchecked", is_flag=True, help="Accept handlers that no node has published yet."
)
queue_option: Decorator = click.option("--queue", shell_complete=complete_queue, help="Queue.")
tenant_option: Decorator = click.option("--tenant", shell_complete=complete_tenant, help="Tenant.")
handler_option: Decorator = click.option("--handler", shell_complete=complete_handler, help="Handler.")
workflow_option: Decorator = click.option("--workflow", help="Workflow.")


class FilterCommand(click.Command):
    """A command with filter arguments: `-tenant:demo` excludes a tenant and is not parsed as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        shielded = [_SHIELD + word if word[:1] == "-" and _CONDITION.match(word) else word for word in args]
        return super().parse_args(ctx, shielded)


def _remove_shield(_context: click.Context, _parameter: click.Parameter, words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.removeprefix(_SHIELD) for word in words)


def words_argument(name: str) -> Decorator:
    """Return an argument of any number of words, passed as `words`."""
    return click.argument("words", nargs=-1, metavar=name, callback=_remove_shield)


class TaskOptions(Struct, frozen=True, kw_only=True):
    """The tasks that `--state`, `--queue`, `--tenant`, `--workflow` and `--handler` select."""

    states: tuple[str, ...] = ()
    queue: str | None = None
    tenant: str | None = None
    workflow: str | None = None
    handler: str | None = None

    def filter(self, words: Sequence[str] = ()) -> Filter:
        """Combine the options with the words of a filter."""
        return Filter(
            states=frozenset(map(State, self.states)),
            queue=self.queue,
            tenant=self.tenant,
            workflow=self.workflow,
            handler=self.handler,
            query=parse(" ".join(words)) if words else None,
        )

    def selection(self, words: Sequence[str]) -> Selection:
        """Return the ids or the filter to act on. Raise `InvalidTask` if nothing was selected, or ids and a filter."""
        if words and not any(_CONDITION.match(word) for word in " ".join(words).split()):
            if self != TaskOptions():
                raise InvalidTask("Use task ids or a filter, not both.")
            return [parse_id(word) for word in words]
        found = self.filter(words)
        if found == Filter():
            raise InvalidTask("No task is selected. Use ids, or a filter such as --queue mail or state:failed.")
        return found


task_options: Decorator = bundle_options(
    group_options(
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice([each.value for each in State]),
            help="State. Repeatable.",
        ),
        queue_option,
        tenant_option,
        workflow_option,
        handler_option,
    ),
    TaskOptions.__struct_fields__,
    "chosen",
    TaskOptions,
)
"""`--state`, `--queue`, `--tenant`, `--workflow` and `--handler`, passed as `chosen`."""


def parse_id(text: str) -> TaskId:
    """Parse a whole task id."""
    try:
        return TaskId(UUID(text))
    except ValueError:
        raise InvalidTask(f"id={text!r} is not a task id. `windlass tasks ls` lists them.") from None

"""System checks: what `manage.py check` says about the setting `WINDLASS` and its store.

The store itself is opened only by `manage.py check --database ALIAS`, as for all checks of Django that need a database.
"""

# Django has no types.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from windlass.distribution import install_hint
from windlass.errors import WindlassError
from windlass.integrations.django.settings import app_url, read_project_settings, uses_psycopg
from windlass.redaction import redact_text
from windlass.store_choice import choose_store
from windlass.stores.admin import DatabaseMissing, Status
from windlass.wiring import open_admin

_SCHEMES = ("postgresql", "postgres", "sqlite", "memory")


@register("windlass")
def check_settings(**_: Any) -> list[CheckMessage]:
    """Check the setting, without opening anything."""
    try:
        url = _store_url()
    except (ImproperlyConfigured, WindlassError) as error:
        return [Error(str(error), id="windlass.E001")]
    scheme = url.partition(":")[0]
    if scheme not in _SCHEMES:
        hint = "Use postgresql://user:password@host/database or sqlite:////path/to/tasks.db."
        return [Error(f"The store {redact_text(url)!r} has an unknown scheme.", hint=hint, id="windlass.E002")]
    if scheme.startswith("postgres") and not _has_psycopg():
        return [Error("A store in PostgreSQL needs psycopg 3.", hint=install_hint("postgres"), id="windlass.E003")]
    return [*_check_transactions()]


@register("windlass", deploy=True)
def check_deployment(**_: Any) -> list[CheckMessage]:
    """Check that the store is one for production. Only `manage.py check --deploy` runs it."""
    try:
        url = _store_url()
    except (ImproperlyConfigured, WindlassError):
        return []  # `check_settings` reports it.
    if url.startswith("postgres"):
        return []
    hint = "Set WINDLASS['URL'] to a PostgreSQL database."
    text = f"The store of Windlass is {redact_text(url)}, which only processes of one machine can share."
    return [Warning(text, hint=hint, id="windlass.W001")]


@register(Tags.database)
def check_store(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Check that the store can be opened and has the latest schema."""
    if not databases or check_settings_errors():
        return []
    url = _store_url()
    if url.startswith("memory:"):
        return []
    migrate = "Run `manage.py windlass db migrate`, or let the first worker do it."
    try:
        status = _read_status(url)
    except WindlassError as error:
        return [Error(f"The store of Windlass cannot be opened: {error}", id="windlass.E004")]
    if status is None or status.schema == 0:
        return [Warning("The store of Windlass has no tables yet.", hint=migrate, id="windlass.W002")]
    if status.schema < status.newest:
        text = f"The store of Windlass has schema {status.schema}, and the latest is {status.newest}."
        return [Warning(text, hint=migrate, id="windlass.W003")]
    return []


def _read_status(url: str) -> Status | None:
    """Return the status of the store; None if its file does not exist."""
    try:
        admin = open_admin(url)
        try:
            return admin.status()
        finally:
            admin.close()
    except DatabaseMissing:
        return None


def check_settings_errors() -> list[CheckMessage]:
    """Return the errors of `check_settings`."""
    return [message for message in check_settings() if message.is_serious()]


def _store_url() -> str:
    return app_url() or choose_store().url


def _has_psycopg() -> bool:
    return find_spec("psycopg") is not None and find_spec("psycopg_pool") is not None


def _check_transactions() -> list[CheckMessage]:
    """Point out settings with which tasks may run before the rows that they need are committed."""
    alias = read_project_settings().database
    found: list[CheckMessage] = []
    if connections[alias].vendor == "postgresql" and not uses_psycopg(alias):
        text = f"The database {alias!r} uses psycopg2, whose transactions tasks cannot join (conn=connection)."
        found.append(Warning(text, hint=install_hint("postgres"), id="windlass.W004"))
    if settings.DATABASES.get(alias, {}).get("ATOMIC_REQUESTS"):
        text = f"ATOMIC_REQUESTS is on for {alias!r}: a task that a view enqueues may start before the view's commit."
        hint = (
            "Use transaction.on_commit(partial(task.enqueue, …)), or task.using(conn=connection).enqueue(…) if the "
            "store is in that database. Tasks of django.tasks join the transaction by themselves."
        )
        found.append(Info(text, hint=hint, id="windlass.I001"))
    return found

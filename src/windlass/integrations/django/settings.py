"""The setting `WINDLASS` of a Django project, and the store that it leads to.

An explicit store (`URL`, then `$WINDLASS_URL` and `windlass.yaml`) wins. Otherwise tasks are in the project's own
database if that is PostgreSQL, so that they can commit with its rows; next to a SQLite database, in their own file.
"""

# Django has no types.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from msgspec import Struct

from windlass.store_choice import choose_explicit

KEYS = ("URL", "DATABASE", "MODULES")

_LIBPQ = {
    "hostaddr",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslrootcert",
    "sslcrl",
    "ssl_min_protocol_version",
    "sslnegotiation",
    "service",
    "passfile",
    "require_auth",
    "channel_binding",
    "gssencmode",
    "krbsrvname",
    "target_session_attrs",
    "connect_timeout",
}
"""Options of a Django database that are also options of our connections."""


class ProjectSettings(Struct, frozen=True, kw_only=True):
    """The setting `WINDLASS`, checked."""

    url: str | None = None
    """The store; None for that of `$WINDLASS_URL`, of `windlass.yaml`, or the project's database."""
    database: str = "default"
    """The alias of the database that has the tasks if no URL names a store."""
    modules: tuple[str, ...] = ("tasks",)
    """The modules of installed apps that a worker imports."""


def read_project_settings() -> ProjectSettings:
    """Return the setting `WINDLASS`. Raise `ImproperlyConfigured` if it is invalid."""
    raw: object = getattr(settings, "WINDLASS", {})
    if not isinstance(raw, Mapping):
        raise ImproperlyConfigured(f"WINDLASS={raw!r} is not a dict. Use WINDLASS = {{'URL': 'postgresql://…'}}.")
    given = cast("Mapping[str, object]", raw)
    unknown = sorted(str(key) for key in given if key not in KEYS)
    if unknown:
        raise ImproperlyConfigured(f"WINDLASS has the unknown key {unknown[0]!r}. The keys are {', '.join(KEYS)}.")
    url, database, modules = given.get("URL"), given.get("DATABASE", "default"), given.get("MODULES", ("tasks",))
    if url is not None and not isinstance(url, str):
        raise ImproperlyConfigured(f"WINDLASS['URL']={url!r} is not a str. Use a URL such as 'postgresql://db/shop'.")
    if not isinstance(database, str) or database not in connections:
        raise ImproperlyConfigured(f"WINDLASS['DATABASE']={database!r} is not an alias of DATABASES.")
    names = cast("list[object] | tuple[object, ...]", modules) if isinstance(modules, list | tuple) else (modules, 0)
    if not all(isinstance(name, str) for name in names):
        raise ImproperlyConfigured(f"WINDLASS['MODULES']={modules!r} is not a list of module names such as ['tasks'].")
    return ProjectSettings(url=url or None, database=database, modules=tuple(map(str, names)))


def app_url() -> str | None:
    """Return the URL of the project's store; None if `$WINDLASS_URL` or `windlass.yaml` names it."""
    project = read_project_settings()
    if project.url is not None:
        return project.url
    return None if choose_explicit() is not None else database_url(project.database)


def joined_database() -> str | None:
    """Return the alias of the database that has the tasks, if tasks can commit with its rows."""
    project = read_project_settings()
    if project.url is not None or choose_explicit() is not None:
        return None
    return project.database if _is_postgres(project.database) and uses_psycopg(project.database) else None


def uses_psycopg(alias: str) -> bool:
    """Return True if Django uses psycopg 3 for a database. Tasks cannot join transactions of psycopg2."""
    return _connection(alias).Database.__name__ == "psycopg"


def database_url(alias: str) -> str:
    """Return the URL of the store that belongs to a database of the project."""
    database = _connection(alias)
    given: dict[str, Any] = database.settings_dict
    name = str(given["NAME"] or "")
    if _is_postgres(alias):
        return _postgres_url(given)
    if database.vendor != "sqlite":
        raise ImproperlyConfigured(
            f"WINDLASS has no URL, and the database {alias!r} is {database.display_name}, which cannot store tasks. "
            "Set WINDLASS['URL'] to a PostgreSQL database, or to a file such as 'sqlite:////var/lib/tasks.db'."
        )
    if name == ":memory:" or "mode=memory" in name:
        return "memory:"
    return f"sqlite:///{Path(name).absolute().with_name('windlass.db')}"


def _is_postgres(alias: str) -> bool:
    return _connection(alias).vendor == "postgresql"


def _connection(alias: str) -> Any:
    """Return Django's connection, which is not open yet. Django has no types."""
    return connections[alias]


def _postgres_url(given: Mapping[str, Any]) -> str:
    """Return the URL of a PostgreSQL database from Django's settings for it."""
    options: dict[str, Any] = {key: value for key, value in given["OPTIONS"].items() if key in _LIBPQ}
    host, port = str(given["HOST"] or ""), str(given["PORT"] or "")
    user, password = quote(str(given["USER"] or ""), safe=""), quote(str(given["PASSWORD"] or ""), safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    if host.startswith("/") or "," in host or ":" in host:  # a folder with a socket, several hosts, an IPv6 address
        options["host"], host = host, ""
        if port:
            options["port"], port = port, ""
    elif port and not host:
        options["port"], port = port, ""
    where = f"{host}:{port}" if port else host
    query = f"?{urlencode(options)}" if options else ""
    return f"postgresql://{login}{where}/{quote(str(given['NAME'] or ''), safe='')}{query}"

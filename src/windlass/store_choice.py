"""Which store to use: one rule for the command line, nodes, apps and `open_store`.

A flag overrides `$WINDLASS_URL`, that overrides `windlass.yaml`, that the URL of the app itself, and that the default.
A choice remembers its origin, so that every message can say where it comes from.

The settings are imported only when they are needed: a process that enqueues with a URL does not pay for them.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from windlass.redaction import redact_text

DEFAULT_URL = "sqlite:///windlass.db"
ENVIRONMENT = "WINDLASS_URL"
SETTINGS_FILE = "windlass.yaml"
HOW_TO_CHOOSE = "Choose the store with --store, $WINDLASS_URL or `store:` in windlass.yaml."


class StoreChoice(Struct, frozen=True):
    """The URL of a store, and where it comes from."""

    url: str
    origin: str
    """`--store`, `$WINDLASS_URL`, the settings file, the app, or `default`."""

    @property
    def label(self) -> str:
        """The URL without its password."""
        return redact_text(self.url)

    @property
    def name(self) -> str:
        """The name of the database alone, without users, hosts and folders."""
        return short_name(self.url)

    @property
    def is_default(self) -> bool:
        """Whether nothing names a store."""
        return self.origin == "default"

    def __str__(self) -> str:
        return f"{self.label} ({self.origin})"


def choose_explicit(flag: str | None = None, *, config: Path | None = None) -> StoreChoice | None:
    """Return the store that a flag, the environment or the settings file names; None if none does."""
    from_environment = os.environ.get(ENVIRONMENT)
    if flag and flag != from_environment:
        return StoreChoice(flag, "--store")
    if from_environment:
        return StoreChoice(from_environment, f"${ENVIRONMENT}")
    if config is None and not Path(SETTINGS_FILE).exists():
        return None
    from windlass.config import read_settings

    from_file = read_settings(config).store
    return StoreChoice(from_file, str(config or SETTINGS_FILE)) if from_file else None


def choose_store(flag: str | None = None, *, config: Path | None = None) -> StoreChoice:
    """Return the store to use where no app is known."""
    return choose_explicit(flag, config=config) or StoreChoice(DEFAULT_URL, "default")


def choose_node_store(explicit: StoreChoice | None, app: str, app_url: str | None) -> StoreChoice:
    """Return the store of a node that runs an app with this URL of its own; None if the app names none.

    Raise `InvalidSettings` if both name a store and they differ, or if workers cannot share the store.
    """
    from windlass.config import InvalidSettings

    choice = explicit or (StoreChoice(app_url, app) if app_url else StoreChoice(DEFAULT_URL, "default"))
    if app_url and not is_same_store(choice.url, app_url):
        raise InvalidSettings(
            f"settings: two stores: {choice} and {redact_text(app_url)} ({app}). What the app enqueues would never run "
            f"here. Use one of them, or windlass.App() without a URL, which uses the same store as the node."
        )
    if choice.url.startswith("memory:"):
        raise InvalidSettings(
            f"settings: store={choice}: a memory store lives in one process, so workers cannot share it. "
            "Use a SQLite file or PostgreSQL."
        )
    return choice


def is_same_store(one: str, other: str) -> bool:
    """Return True if two URLs name the same database, whatever their users, passwords and options.

    >>> is_same_store("postgres://ann:pw@db/shop", "postgresql://db:5432/shop?pooler=transaction")
    True
    """
    return _place(one) == _place(other)


def short_name(url: str) -> str:
    """Return the name of a database alone, for titles.

    >>> short_name("postgresql://ann:pw@db/shop"), short_name("sqlite:////var/lib/windlass.db")
    ('shop', 'windlass.db')
    """
    place = _place(url)
    name = place[-1]
    return (name.name if isinstance(name, Path) else str(name) if len(place) > 1 else "") or url.partition(":")[0]


def _place(url: str) -> tuple[object, ...]:
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        return scheme, Path(url.removeprefix("sqlite:///")).resolve()
    if scheme not in ("postgresql", "postgres"):
        return (url,)
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    database = unquote(parts.path.lstrip("/")) or options.get("dbname", "")
    host = unquote(hosts) or ",".join(filter(None, [options.get("host", ""), options.get("port", "")]))
    return "postgresql", host.removesuffix(":5432").removesuffix(",5432"), database

"""The URL of a PostgreSQL server: parsed, and completed with the options that our connections need.

A URL may contain a password, and the driver quotes what it cannot parse. So a malformed URL is refused here, with a
message that does not repeat it. Options in the URL take precedence over ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from windlass.errors import StoreError

WANTED: Mapping[str, Any] = {
    "connect_timeout": 5,
    # If the URL has several hosts, use the primary: a standby cannot write.
    "target_session_attrs": "read-write",
    # Notice a vanished server within half a minute, instead of the kernel's two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def connection_info(url: str, *, name: str, settings: Mapping[str, str] | None = None) -> str:
    """Return the connection string. `settings` are set for the session, in addition to the URL's `options`."""
    given = _read(url)
    wanted = {"application_name": name, **WANTED}
    added = {key: value for key, value in wanted.items() if key not in given}
    if settings:
        ours = [f"-c {key}={value}" for key, value in settings.items()]
        added["options"] = " ".join([*filter(None, [given.get("options")]), *ours])
    return make_conninfo(url, **added)


def _read(url: str) -> dict[str, Any]:
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        given = None
    # An unescaped @ or / in a password would become part of the host or the port.
    if given is None or "@" in str(given.get("host", "")) or not re.fullmatch(r"[0-9,]*", str(given.get("port", ""))):
        raise StoreError(
            "The PostgreSQL URL is malformed. Use postgresql://user:password@host:port/database, and in the "
            "password %40 for @, %2F for /, %3A for :, %25 for %."
        )
    return given

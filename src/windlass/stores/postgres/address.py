"""The URL of a PostgreSQL server: read once, completed with what our connections need, and never shown.

It may hold a password, and the driver quotes what it cannot read. So a URL that is not well-formed is refused here, in
words that repeat none of it. What the URL says about connections stands; what it leaves open is filled in.
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
    # A primary that became a standby takes no tasks: of several hosts in the URL, find the one that does.
    "target_session_attrs": "read-write",
    # A server that is gone without a word is noticed within half a minute, not after the kernel's two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def connection_info(url: str, *, name: str, settings: Mapping[str, str] | None = None) -> str:
    """What the driver is given to connect. `settings` are set for the session, beside those of the URL's `options`."""
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
    # A password with an `@` or a `/` in it spills over into the host or the port.
    if given is None or "@" in str(given.get("host", "")) or not re.fullmatch(r"[0-9,]*", str(given.get("port", ""))):
        raise StoreError(
            "the PostgreSQL URL cannot be read: write postgresql://user:password@host:port/database, and in the "
            "password %40 for @, %2F for /, %3A for :, %25 for %"
        )
    return given

"""Types of fields that many shapes share. Times are ISO 8601 in UTC; durations are seconds or text such as "30s"."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from windlass.core.times import Micros, to_datetime

MAX_BATCH = 10_000
"""How many tasks one HTTP batch or atomic stream may have."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
Text = Annotated[str, Meta(min_length=1, max_length=512)]
Seconds = Annotated[float, Meta(ge=0, le=315_360_000)]
When = Annotated[
    str | float,
    Meta(description='An ISO 8601 time with a zone, or a time from now: seconds, or text such as "10m".'),
]
Length = Annotated[str | float, Meta(description='Seconds, or text such as "30s" or "1h30m".')]
Priority = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
Retries = Annotated[int, Meta(ge=0, le=1_000)]
Slots = Annotated[int, Meta(ge=1, le=1_000)]


class Reason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a change is made, for the audit log."""

    why: Annotated[str, Meta(max_length=500)] = ""
    by: Annotated[str, Meta(max_length=128)] = ""
    """The person who wants the change, if not the owner of the token."""


NO_REASON = Reason()


def as_datetime(instant: Micros | None) -> datetime | None:
    """Convert a time; None stays None."""
    return None if instant is None else to_datetime(instant)

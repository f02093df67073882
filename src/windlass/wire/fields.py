"""Types of fields that many shapes share. Times are ISO 8601 in UTC; durations are seconds or text such as "30s"."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from windlass.core.times import Micros, to_datetime

MAX_BATCH = 10_000
"""How many tasks one HTTP batch or atomic stream may have."""

Moment = Annotated[datetime, Meta(tz=True)]
"""A time with its zone; with `format: date-time` in schemas."""
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
NO_NUL = r"^[^\x00]*$"
"""PostgreSQL stores no NUL characters."""
Text = Annotated[str, Meta(min_length=1, max_length=512, pattern=NO_NUL)]
Seconds = Annotated[float, Meta(ge=0, le=315_360_000)]
When = Annotated[
    str | float,
    Meta(description='An ISO 8601 time with a zone, or a time from now: seconds, or text such as "10m".'),
]
Length = Annotated[str | float, Meta(description='Seconds, or text such as "30s" or "1h30m".')]
Priority = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
Retries = Annotated[int, Meta(ge=0, le=1_000)]
Bytes = Annotated[int, Meta(ge=1, le=2**50)]
LimitKey = Annotated[
    str,
    Meta(
        min_length=1, max_length=200, description='The key of a limit, with arguments as in "customer:{customer_id}".'
    ),
]
MaxRunning = Annotated[int, Meta(ge=0, le=1_000_000)]
RateText = Annotated[str, Meta(max_length=40, description='Tasks per period, such as "10/1m" or "5/s".')]
Slots = Annotated[int, Meta(ge=1, le=1_000)]


class Reason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a change is made, for the audit log."""

    why: Annotated[str, Meta(max_length=500, pattern=NO_NUL)] = ""
    by: Annotated[str, Meta(max_length=128, pattern=NO_NUL)] = ""
    """The person who wants the change, if not the owner of the token."""


NO_REASON = Reason()


def as_datetime(instant: Micros | None) -> datetime | None:
    """Convert a time; None stays None."""
    return None if instant is None else to_datetime(instant)

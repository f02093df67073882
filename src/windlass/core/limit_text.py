"""Limits and settings of tenants in words, for `why`, the audit log and tables."""

from __future__ import annotations

from windlass.core.fairness import SetBy
from windlass.core.limits import Limit, LimitUse, format_rate
from windlass.core.times import Micros, to_datetime


def describe_scope(limit: Limit) -> str:
    """Return what a limit is on, such as "tenant acme in queue bulk"."""
    if limit.tenant is not None:
        return f"tenant {limit.tenant}" + ("" if limit.queue is None else f" in queue {limit.queue}")
    field = next(field for field in ("queue", "handler", "key") if getattr(limit, field) is not None)
    return f"{field} {getattr(limit, field)}"


def describe_amounts(limit: Limit) -> str:
    """Return what a limit allows, such as "5 at once, 100/1m"."""
    found = [] if limit.max_running is None else [f"{limit.max_running:,} at once"]
    return ", ".join(found if limit.rate is None else [*found, format_rate(limit.rate)])


def describe_use(use: LimitUse) -> str:
    """Return what is used of a limit, such as "5 of 5 run, 100/1m with the next start at …"."""
    found = [] if use.limit.max_running is None else [f"{use.running:,} of {use.limit.max_running:,} run"]
    if use.limit.rate is not None:
        then = "" if use.next_token is None else f" with the next start at {format_moment(use.next_token)}"
        found.append(f"{format_rate(use.limit.rate)}{then}")
    return ", ".join(found)


def describe_author(set_by: SetBy | None) -> str:
    """Return who set something, until when and why, such as ' by ann until …: "noisy"'; empty for None."""
    if set_by is None:
        return ""
    until = "" if set_by.until is None else f" until {format_moment(set_by.until)}"
    return f" by {set_by.by}{until}" + (f': "{set_by.why}"' if set_by.why else "")


def format_moment(moment: Micros) -> str:
    """Return a time in UTC, to the second."""
    return f"{to_datetime(moment):%Y-%m-%d %H:%M:%S} UTC"

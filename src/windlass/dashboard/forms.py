"""The fields of forms. A form sends text, and an empty field stands for "not given"."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.names import shorten
from windlass.core.times import duration
from windlass.dashboard.page import Goto
from windlass.errors import InvalidTask


class Reason(Struct, frozen=True, kw_only=True):
    """Why something is done, and the page to come back to."""

    why: str = ""
    back: str = ""


class Named(Reason, frozen=True, kw_only=True):
    """What it is done to."""

    name: str


class NamedLasting(Named, frozen=True, kw_only=True):
    """For how long it holds; until it is changed if that is empty."""

    lasts: str = ""


def go_back(form: Reason, otherwise: str, text: str) -> Goto:
    """Go back to the page on which the form was, with a message."""
    return Goto(back=form.back, text=text) if form.back else Goto(path=otherwise, text=text)


def read_number(field: str, text: str) -> int | None:
    """Return a whole number; None for an empty field."""
    try:
        return int(text.replace(",", "")) if text.strip() else None
    except ValueError:
        raise InvalidTask(f"{field}={shorten(text)} is not a whole number.") from None


def read_duration(field: str, text: str) -> timedelta | None:
    """Return a duration such as 30s, 10m or 2h; None for an empty field."""
    return duration(text.strip(), field) if text.strip() else None


def read_moment(field: str, text: str, zone: tzinfo | None) -> datetime | timedelta | None:
    """Return a date and time, in a zone if it names none, or a duration from now; None for an empty field."""
    text = text.strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return duration(text, field)
        except InvalidTask:
            right = "Use a date and time such as 2027-01-31 06:00, or a duration from now such as 2h."
            raise InvalidTask(f"{field}={shorten(text)} is not a time. {right}") from None
    return moment.replace(tzinfo=zone) if moment.tzinfo is None and zone else moment.astimezone()


def read_object(field: str, text: str) -> dict[str, Any]:
    """Return a JSON object; an empty one for an empty field."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text.strip() else {}
    except msgspec.MsgspecError as error:
        right = 'Use one such as {"total": 1}.'
        raise InvalidTask(f"{field}={shorten(text)} is not a JSON object ({error}). {right}") from None

"""Errors of attempts, and retry policies: exponential backoff with jitter and a cap, and rules per kind of error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fnmatch import fnmatchcase

from msgspec import Struct

from windlass.core.names import check_text, check_type, shorten
from windlass.core.times import Micros, micros
from windlass.errors import InvalidTask


class Error(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error of an attempt, as text. It is never turned back into an exception."""

    kind: str
    """The name of the exception class, as in `ValueError`."""
    message: str = ""
    traceback: str = ""

    def storable(self) -> Error:
        """Return the error without characters that a database cannot store."""
        return Error(kind=storable(self.kind), message=storable(self.message), traceback=storable(self.traceback))


def storable(text: str) -> str:
    """Return text without NUL characters and lone surrogates, which PostgreSQL refuses.

    A subclass of str, as template libraries have, becomes a plain str.
    """
    if type(text) is not str:
        text = str.__str__(text)
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


class ErrorRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception to a retry policy for one kind of error. None means: as in the policy.

    >>> Retry(
    ...     retries=5,
    ...     rules=(ErrorRule(error="HTTP*", base=timedelta(minutes=1)), ErrorRule(error="KeyError", retries=0)),
    ... )
    """

    error: str
    """The name of the exception class, or a shell-style pattern."""
    retries: int | None = None
    base: timedelta | None = None


class Retry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A retry policy: `retries` further attempts, the nth after `base · 2ⁿ⁻¹ · (0.5 … 1.5)`, never more than `cap`."""

    retries: int = 3
    base: timedelta = timedelta(seconds=10)
    cap: timedelta = timedelta(hours=1)
    rules: tuple[ErrorRule, ...] = ()
    """The first rule that matches the error applies."""

    def check(self) -> None:
        """Raise `InvalidTask` for an invalid policy, naming the field."""
        _check_retries("retry.retries", self.retries)
        _check_wait("retry.base", self.base)
        _check_wait("retry.cap", self.cap)
        check_type("retry.rules", self.rules, (tuple, list), "pass a tuple of ErrorRule")
        for rule in self.rules:
            check_type("retry.rules", rule, ErrorRule, "pass a tuple of ErrorRule")
            check_text("retry.rules.error", rule.error)
            if rule.retries is not None:
                _check_retries(f"retry.rules[{rule.error!r}].retries", rule.retries)
            if rule.base is not None:
                _check_wait(f"retry.rules[{rule.error!r}].base", rule.base)

    def next_delay(
        self, attempt: int, error: Error, random: Callable[[], float], wish: Micros | None = None
    ) -> Micros | None:
        """Return the delay after failed attempt number `attempt` (from 1); None to give up.

        `random` returns numbers in [0, 1). `wish` is a delay that the handler asked for, used as it is.
        """
        rule = next((rule for rule in self.rules if fnmatchcase(error.kind, rule.error)), None)
        retries = self.retries if rule is None or rule.retries is None else rule.retries
        if attempt > retries:
            return None
        if wish is not None:
            return wish
        base = micros(self.base if rule is None or rule.base is None else rule.base)
        # The exponent is bounded, so that a thousand retries do not build a thousand-bit number.
        return min(micros(self.cap), int(base * 2 ** min(attempt - 1, 60) * (0.5 + random())))


def _check_retries(field: str, retries: object) -> None:
    if type(retries) is not int or not 0 <= retries <= 1_000:
        raise InvalidTask(f"{field}={shorten(retries)} is not an integer from 0 to 1000")


def _check_wait(field: str, wait: object) -> None:
    if not isinstance(wait, timedelta) or not timedelta(0) <= wait <= timedelta(days=365):
        raise InvalidTask(f"{field}={shorten(wait)} is not a timedelta from zero to one year")

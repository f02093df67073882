"""Logging to standard error: plain lines on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

import click

from windlass.events import Events
from windlass.operations.presentation import escape_controls
from windlass.worker.log_format import log_handler
from windlass.worker.logs import log_event, logger

LEVELS = ("debug", "info", "warning", "error")


def logs_json() -> bool:
    """Return whether the log is JSON: it is, unless standard error is a terminal."""
    return not sys.stderr.isatty()


def log_to_stderr(loggers: Iterable[logging.Logger], level: int) -> None:
    """Send the records of these loggers, from a level on, to standard error."""
    handler = log_handler(sys.stderr, json=logs_json())
    for each in loggers:
        each.handlers.clear()  # Of an earlier command in the same process, as in tests.
        each.addHandler(handler)
        each.setLevel(level)
        each.propagate = False


def log_events(events: Events, level: str) -> None:
    """Log the events of this node to standard error, from a level on."""
    log_to_stderr([logger], getattr(logging, level.upper()))
    # Not to build an event for every completed task if nobody sees it.
    events.listen(log_event, attempts="all" if logger.isEnabledFor(logging.INFO) else "failed")


def log_failure(text: str, code: str) -> None:
    """Report the error that ends a command: as a message for people, or as the last line of a JSON log."""
    if logs_json():
        logger.error("%s", text, extra={"fields": {"event": "CommandFailed", "code": code}})
    else:
        click.echo(f"windlass: {escape_controls(text)}", err=True)

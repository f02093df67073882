"""The JSON shapes of commands that have no HTTP resource: the database, the settings, and local runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict

from windlass.simulation.run import SimulationResult
from windlass.stores.admin import Finding, Status
from windlass.wire.tasks import ErrorShape


class SubmitCounts(Struct, kw_only=True):
    """`windlass submit`: how many lines were read, and their results."""

    lines: int = 0
    created: int = 0
    existing: int = 0
    """Lines whose key had been submitted before."""
    refused: int = 0


class ReproResult(Struct, frozen=True, kw_only=True):
    """`windlass repro`: how the handler ended."""

    task: UUID
    handler: str
    attempt: int
    returned: bool
    result: Any
    error: ErrorShape | None
    same_bug: bool | None
    """Whether the latest failed attempt ended with the same bug; null if no attempt failed."""


class Simulation(Struct, frozen=True, kw_only=True):
    """`windlass pool simulate`: the result of each policy for one load."""

    load: str
    tasks: int
    seconds: int
    results: list[SimulationResult]


class NewToken(Struct, frozen=True, kw_only=True):
    """`windlass token create`: the token, which is shown only here."""

    name: str
    token: str


class Setting(Struct, frozen=True, kw_only=True):
    """`windlass config show`: one setting."""

    name: str
    value: str | int | float | bool | list[str | int | float | bool | None] | None
    """As in the file; a duration is text."""
    origin: str
    """`default`, the name of the file, `$VARIABLE`, or the option."""


class Mark(StrEnum):
    """The result of a check."""

    GOOD = "✓"
    WARNING = "⚠"
    BAD = "✗"


class CheckResult(Struct, frozen=True, kw_only=True):
    """`windlass doctor`: the result of one check."""

    name: str
    mark: Mark
    text: str
    fix: str = ""


class DatabaseStatus(Struct, frozen=True, kw_only=True):
    """`windlass db status`: the database."""

    kind: str
    version: str
    """The version of SQLite or PostgreSQL."""
    schema: int
    """The latest migration that was applied."""
    compatible_from: int
    """The oldest schema whose programs can use the database."""
    newest: int
    """The latest migration of this Windlass."""
    bytes: int
    tasks: dict[str, int]
    """Task counts by state."""
    sessions: int
    """Nodes that may be running."""
    facts: dict[str, str]
    """Settings of the database that affect durability and limits."""


class DatabaseFinding(Struct, frozen=True, kw_only=True):
    """`windlass db check`: one problem."""

    check: str
    count: int
    text: str
    examples: list[str]


class Migration(Struct, frozen=True, kw_only=True):
    """`windlass db migrate`: the schema version before and after, and the latest one."""

    before: int
    after: int
    newest: int


class Epoch(Struct, frozen=True, kw_only=True):
    """`windlass db raise-epoch`: the new epoch."""

    epoch: int


class CopiedRows(Struct, frozen=True, kw_only=True):
    """`windlass db copy`: how many rows of each table were copied."""

    rows: dict[str, int]


def status_shape(status: Status) -> DatabaseStatus:
    """Return the shape of a database."""
    return DatabaseStatus(**asdict(status))


def finding_shape(finding: Finding) -> DatabaseFinding:
    """Return the shape of a problem of a database."""
    return DatabaseFinding(**asdict(finding))

"""The JSON documents that the store keeps for each pool: the latest decision, and the operators' overrides.

They are separate because they have different writers. Any node writes decisions, people write overrides, and neither
may undo the other.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.controller import ControllerState, Override
from windlass.autoscale.observe import Baseline
from windlass.autoscale.settings import Settings
from windlass.core.times import Micros

POOL, OVERRIDES = "pool", "order"
"""The kinds of the controls that hold these documents. The name of the control is that of the pool."""


class PauseRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who paused the pool, when, and why."""

    by: str
    at: Micros
    why: str = ""


class PoolOverrides(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The overrides of a pool by operators."""

    override: Override | None = None
    paused: PauseRequest | None = None
    tuned: dict[str, float | int | str | list[str | dict[str, float | int | list[int]]]] = {}
    """Settings that replace those of the nodes' files, by their names in `Settings`."""

    def tune(self, settings: Settings) -> Settings:
        """Return the settings with the tuned values. Names that this version does not know are ignored."""
        changes = {name: value for name, value in self.tuned.items() if name in Settings.__struct_fields__}
        return msgspec.convert({**msgspec.to_builtins(settings), **changes}, Settings) if changes else settings


class PoolDecision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest decision about a pool, and the state for the next one."""

    tick: int = 0
    """The second of the decision, on the store's clock."""
    by: str = ""
    """The node that decided."""
    target: int = 0
    """Workers over all nodes."""
    slots: int = 0
    """Tasks that these workers run at once."""
    threads: int = 1
    queues: tuple[str, ...] = ()
    settings: Settings = Settings()
    """The effective settings, with bounds in slots."""
    order: int = 0
    """The version of the overrides that were applied."""
    idle: bool = False
    """True if the pool has no work and cannot shrink further. Until that changes, nothing is written."""
    sentence: str = ""
    reasons: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    needs: float = 0.0
    reported: str = ""
    """The limit and time of the last hold in the ledger."""
    reported_at: int = 0
    state: ControllerState = ControllerState()
    seen: Baseline = Baseline()

    def apply_overrides(self, overrides: PoolOverrides) -> ControllerState:
        """Return the controller's state with the overrides, in slots."""
        override = overrides.override
        if override is not None:
            override = replace(override, min=override.min * self.threads, max=override.max * self.threads)
        return replace(self.state, override=override, paused=overrides.paused is not None)


Document = TypeVar("Document", PoolDecision, PoolOverrides)


def decode_document(text: str, kind: type[Document]) -> Document:
    """Decode a stored document. An unreadable one counts as empty."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return kind()


def encode_document(document: PoolDecision | PoolOverrides) -> str:
    """Encode a document for the store."""
    return msgspec.json.encode(document).decode()

"""What people order: a pin or a range for some time, and a pause. It outranks every decider and veto."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from windlass.autoscale.controller import ControllerState, Override
from windlass.autoscale.observe import Baseline
from windlass.autoscale.settings import Settings
from windlass.core.times import Micros

POOL, OVERRIDES = "pool", "order"
"""The kinds of control under which they are kept; the pool's name is the control's."""


class PauseRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who has set the pool to 0, when, and why."""

    by: str
    at: Micros
    why: str = ""


class PoolOverrides(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people want of a pool."""

    override: Override | None = None
    paused: PauseRequest | None = None
    tuned: dict[str, float | int | str | list[str | dict[str, float | int | list[int]]]] = {}
    """Settings that count more than what the nodes' files say, by the names in `Settings`."""

    def tune(self, settings: Settings) -> Settings:
        """The settings with what was tuned. What this version does not know is left alone."""
        known = {field.name for field in fields(Settings)}
        changes = {name: value for name, value in self.tuned.items() if name in known}
        return msgspec.convert({**msgspec.to_builtins(settings), **changes}, Settings) if changes else settings


class PoolDecision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest tick of a pool, and all that the next one needs."""

    tick: int = 0
    """The second that it decided about, on the store's clock."""
    by: str = ""
    """The node that decided."""
    target: int = 0
    """Workers, over all nodes."""
    slots: int = 0
    """Tasks that so many workers run at once."""
    threads: int = 1
    queues: tuple[str, ...] = ()
    settings: Settings = Settings()
    """What was in force, bounds in slots."""
    order: int = 0
    """The version of the order that was followed."""
    idle: bool = False
    """Nothing was there to be run, and the size could not become smaller: until that changes, nothing is written."""
    sentence: str = ""
    reasons: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    needs: float = 0.0
    told: str = ""
    """What limited the size when a hold was last entered in the ledger, and when that was."""
    told_at: int = 0
    state: ControllerState = ControllerState()
    seen: Baseline = Baseline()

    def apply_overrides(self, order: PoolOverrides) -> ControllerState:
        """The controller's state with what people have ordered in it, in slots."""
        override = order.override
        if override is not None:
            override = replace(override, least=override.least * self.threads, most=override.most * self.threads)
        return replace(self.state, override=override, paused=order.paused is not None)


Document = TypeVar("Document", PoolDecision, PoolOverrides)


def decode_document(text: str, kind: type[Document]) -> Document:
    """A stored document. One that cannot be read, from another version or a wrong hand, counts as new."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return kind()


def encode_document(document: PoolDecision | PoolOverrides) -> str:
    """The text that is stored."""
    return msgspec.json.encode(document).decode()

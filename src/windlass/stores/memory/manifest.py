"""Handlers and crons in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.manifest import CronInfo, CronState, HandlerInfo, HandlerSeen, Manifest
from windlass.core.names import check_text
from windlass.core.retry import storable
from windlass.core.times import Micros
from windlass.core.validation import check_flag
from windlass.stores.coordination import Entry, check_entries
from windlass.stores.memory.base import MemoryBase


class MemoryManifest(MemoryBase):
    """Publish handlers and crons, and pause crons."""

    def publish(self, manifest: Manifest, *, entries: Sequence[Entry] = ()) -> None:
        manifest, checked = manifest.checked(), check_entries(entries)
        with self._lock:
            now = self._clock.now()
            changed = [self._put_handler(_seen(handler, now)) for handler in manifest.handlers]
            changed += [self._put_cron(cron) for cron in manifest.crons]
            self._tables.note(checked if any(changed) else [], now)

    def pause_cron(
        self, name: str, paused: bool, *, by: str = "", why: str = "", entries: Sequence[Entry] = ()
    ) -> None:
        check_text("cron", name)
        check_flag("paused", paused)
        checked = check_entries(entries)
        with self._lock:
            known = self._tables.cron(name)
            reasons = {"paused_by": storable(by), "paused_why": storable(why)} if paused else {}
            changed = CronState(info=known.info, fired=known.fired, paused=paused, **reasons)
            if changed != known:
                self._tables.crons[name] = changed
                self._tables.note(checked, self._clock.now())

    def remove_cron(self, name: str, *, entries: Sequence[Entry] = ()) -> None:
        check_text("cron", name)
        checked = check_entries(entries)
        with self._lock:
            self._tables.cron(name)
            del self._tables.crons[name]
            self._tables.note(checked, self._clock.now())

    def _put_handler(self, handler: HandlerSeen) -> bool:
        """Store a handler. Return True if it is new or differs in more than the time of its publishing."""
        known = self._tables.handlers.get(handler.name)
        self._tables.handlers[handler.name] = handler
        return known is None or replace(known, seen=handler.seen) != handler

    def _put_cron(self, cron: CronInfo) -> bool:
        """Store a cron. Return True if it is new or differs."""
        known = self._tables.crons.get(cron.name)
        self._tables.crons[cron.name] = CronState(info=cron) if known is None else replace(known, info=cron)
        return known is None or known.info != cron


def _seen(handler: HandlerInfo, now: Micros) -> HandlerSeen:
    fields = {field: getattr(handler, field) for field in HandlerInfo.__struct_fields__}
    return HandlerSeen(**fields, seen=now)

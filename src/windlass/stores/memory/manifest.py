"""Handlers and crons in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.manifest import CronInfo, CronState, HandlerInfo, HandlerSeen, Manifest
from windlass.core.names import check_text
from windlass.core.retry import storable
from windlass.core.schedule import check_cron, check_version, next_version, put_cron
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
            changed += [self._put_cron(cron, now) for cron in manifest.crons]
            self._tables.note(checked if any(changed) else [], now)

    def put_cron(
        self, cron: CronInfo, *, expect: int, pause: tuple[str, str] | None = None, entries: Sequence[Entry] = ()
    ) -> CronState:
        cron, checked = check_cron(cron), check_entries(entries)
        with self._lock:
            now, known = self._clock.now(), self._tables.crons.get(cron.name)
            after = put_cron(known, cron, expect, now, pause)
            if after != known:
                self._tables.crons[cron.name] = after
                self._tables.note(checked, now)
            return after

    def pause_cron(
        self,
        name: str,
        paused: bool,
        *,
        by: str = "",
        why: str = "",
        expect: int | None = None,
        entries: Sequence[Entry] = (),
    ) -> None:
        check_text("cron", name)
        check_flag("paused", paused)
        checked = check_entries(entries)
        with self._lock:
            now, known = self._clock.now(), self._tables.cron(name)
            check_version(known, expect)
            reasons = (storable(by), storable(why)) if paused else (None, None)
            changed = replace(known, paused=paused, paused_by=reasons[0], paused_why=reasons[1])
            if changed != known:
                self._tables.crons[name] = replace(changed, version=next_version(known, now))
                self._tables.note(checked, now)

    def remove_cron(self, name: str, *, expect: int | None = None, entries: Sequence[Entry] = ()) -> None:
        check_text("cron", name)
        checked = check_entries(entries)
        with self._lock:
            check_version(self._tables.cron(name), expect)
            del self._tables.crons[name]
            self._tables.note(checked, self._clock.now())

    def _put_handler(self, handler: HandlerSeen) -> bool:
        """Store a handler. Return True if it is new or differs in more than the time of its publishing."""
        known = self._tables.handlers.get(handler.name)
        self._tables.handlers[handler.name] = handler
        return known is None or replace(known, seen=handler.seen) != handler

    def _put_cron(self, cron: CronInfo, now: Micros) -> bool:
        """Store a cron of an app. Return True if it is new or differs."""
        known = self._tables.crons.get(cron.name)
        if known is None:
            self._tables.crons[cron.name] = CronState(info=cron, version=now)
        elif known.at_run_time or known.info == cron:
            return False
        else:
            self._tables.crons[cron.name] = replace(known, info=cron, version=next_version(known, now))
        return True


def _seen(handler: HandlerInfo, now: Micros) -> HandlerSeen:
    fields = {field: getattr(handler, field) for field in HandlerInfo.__struct_fields__}
    return HandlerSeen(**fields, seen=now)

"""Controls, the audit log and the look at queues in the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import takewhile

from windlass.core.lifecycle import State
from windlass.core.names import check_name
from windlass.core.times import Micros, span
from windlass.stores.coordination import (
    LOOKED_AT,
    STEERING,
    Control,
    Due,
    Entry,
    EntrySeen,
    Look,
    QueueLook,
    Report,
    check_control,
    check_entries,
    check_queues,
    is_prefix,
    seconds_until,
)
from windlass.stores.memory.base import MemoryBase
from windlass.stores.protocol import check_limit


class MemoryCoordination(MemoryBase):
    """Look at queues, write controls, and keep the audit log."""

    def look(self, queues: Sequence[str], *, ahead: timedelta) -> Look:
        until, asked = span(ahead, "ahead"), check_queues(queues)
        with self._lock:
            now = self._clock.now()
            return Look(
                now=now,
                queues=[self._queue_look(queue, now) for queue in asked],
                due=self._due(frozenset(asked), now, now + until),
                controls=[control for kind in STEERING for control in self._controls(kind)],
                reports=self._reports(now),
            )

    def put_control(
        self, kind: str, name: str, value: str | None, *, expect: int, entries: Sequence[Entry] = ()
    ) -> bool:
        value, checked = check_control(kind, name, value, expect), check_entries(entries)
        with self._lock:
            version, stands = self._tables.versions.get((kind, name), 0), (kind, name) in self._tables.controls
            if expect != (version if stands else 0):
                return False
            now = self._clock.now()
            self._tables.versions[kind, name] = version + 1
            if value is None:
                self._tables.controls.pop((kind, name), None)
            else:
                control = Control(kind=kind, name=name, version=version + 1, value=value, changed=now)
                self._tables.controls[kind, name] = control
            self._tables.note(checked, now)
            return True

    def note(self, entries: Sequence[Entry]) -> None:
        checked = check_entries(entries)
        with self._lock:
            self._tables.note(checked, self._clock.now())

    def controls(self, kind: str) -> list[Control]:
        check_name("kind", kind)
        with self._lock:
            return self._controls(kind)

    def audit(self, subject: str | None = None, *, limit: int = 100, before: int | None = None) -> list[EntrySeen]:
        check_limit(limit)
        with self._lock:
            found = [
                entry
                for entry in reversed(self._tables.audit)
                if (before is None or entry.number < before) and _is_about(entry, subject)
            ]
        return found[:limit]

    def _controls(self, kind: str) -> list[Control]:
        return [control for (of, _), control in sorted(self._tables.controls.items()) if of == kind]

    def _queue_look(self, queue: str, now: Micros) -> QueueLook:
        def tasks(state: State) -> int:
            return sum(n for (name, _, of), n in self._tables.counts.items() if name == queue and of is state)

        return QueueLook(
            queue=queue,
            runnable=tasks(State.RUNNABLE),
            leased=tasks(State.LEASED),
            scheduled=tasks(State.SCHEDULED),
            retrying=tasks(State.RETRYING),
            oldest=self._tables.oldest(queue),
            paused=self._tables.queue(queue).is_paused(now),
        )

    def _due(self, queues: frozenset[str], now: Micros, until: Micros) -> list[Due]:
        next_ones = takewhile(lambda task: task.due <= until, self._tables.timers(LOOKED_AT))
        found: dict[tuple[str, State, int], int] = {}
        for task in next_ones:
            if task.queue in queues:
                key = (task.queue, task.state, seconds_until(task.due, now))
                found[key] = found.get(key, 0) + 1
        return [
            Due(queue=queue, state=state, seconds=seconds, tasks=tasks)
            for (queue, state, seconds), tasks in sorted(found.items())
        ]

    def _reports(self, now: Micros) -> list[Report]:
        return [
            Report(
                session=id,
                node=one.node,
                report=one.report,
                age=timedelta(microseconds=max(0, now - one.reported)),
            )
            for id, one in sorted(self._tables.sessions.items(), reverse=True)
            if one.reported is not None and not one.lost and one.renewed + one.ttl >= now
        ]


def _is_about(entry: Entry, subject: str | None) -> bool:
    if subject is None:
        return True
    return entry.subject.startswith(subject) if is_prefix(subject) else entry.subject == subject

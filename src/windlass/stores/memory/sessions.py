"""Sessions and claims in the memory store: who may hold tasks, and what each gets to hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Condition, RLock

from windlass.clock import Clock, entropy
from windlass.core.fence import next_fence
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.names import check_text
from windlass.core.retry import storable
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.settlement import let_go
from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros, span
from windlass.errors import SessionLost
from windlass.stores.coordination import check_renewal, check_report
from windlass.stores.memory.settle import end_attempt, resolve
from windlass.stores.memory.tables import Session, Tables
from windlass.stores.protocol import SESSION_TTL


class MemorySessions:
    """Writes to the store's tables, each under the store's lock."""

    _clock: Clock
    _tables: Tables
    _lock: RLock
    _work: Condition

    def open_session(self, node: str, ttl: timedelta = SESSION_TTL, about: str = "") -> SessionId:
        check_text("node", node)
        length = span(ttl, "ttl")
        with self._lock:
            now = self._clock.now()
            session = SessionId(fresh_id(now, entropy(1)()))
            self._tables.sessions[session] = Session(node=node, ttl=length, renewed=now, about=storable(about))
            return session

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        texts = check_renewal(about, workers)
        with self._lock:
            alive = self._alive(session)
            alive.renewed = self._clock.now()
            for field, text in texts.items():
                if text is not None:
                    setattr(alive, field, text)
            held = (self._tables.tasks[id] for id in sorted(self._tables.held[session]))
            return [Lease(task.id, task.fence, session) for task in held if task.cancel_requested]

    def report(self, session: SessionId, text: str) -> None:
        text = check_report(text)
        with self._lock:
            alive = self._alive(session)
            alive.report, alive.reported = text, self._clock.now()

    def close_session(self, session: SessionId) -> None:
        with self._lock:
            now = self._clock.now()
            held = sorted(self._tables.held[session])
            for id in held:
                task = self._tables.tasks[id]
                end_attempt(self._tables, task, let_go(at_most_once=task.rules.at_most_once), now)
            resolve(self._tables, held, now)
            if session in self._tables.sessions:
                self._tables.sessions[session].lost = True
            self._work.notify_all()

    def claim(
        self,
        session: SessionId,
        queues: Sequence[str],
        limit: int,
        *,
        serves: Serves = EVERYTHING,
        merge: bool = False,
    ) -> list[Claim]:
        with self._lock:
            self._alive(session)
            now = self._clock.now()
            claims: list[Claim] = []
            running = [queue for queue in dict.fromkeys(queues) if not self._tables.queue(queue).paused]
            for taken_as_one in [running] if merge else [[queue] for queue in running]:
                claims += self._claim_from(taken_as_one, session, limit - len(claims), now, serves)
            return claims

    def _alive(self, session: SessionId) -> Session:
        known = self._tables.sessions.get(session)
        if known is None or known.lost:
            raise SessionLost(session)
        return known

    def _claim_from(
        self, queues: Sequence[str], session: SessionId, limit: int, now: Micros, serves: Serves
    ) -> list[Claim]:
        heads: list[TaskId] = []
        left: list[TaskId] = []
        seen: set[TaskId] = set()  # A task that was given its place anew may stand in the heap more than once.
        for queue in queues:
            wanted = len(heads) + limit
            while len(heads) < wanted and (id := self._tables.first_runnable(queue)) is not None:
                if id in seen:
                    continue
                seen.add(id)
                task = self._tables.tasks[id]
                late = task.expires is not None and task.expires <= now  # The sweep will end it.
                (left if late or not serves.can_run(task.handler, task.rules) else heads).append(id)
        heads.sort(key=lambda id: (self._tables.places[id], id))
        for id in left + heads[limit:]:
            self._tables.put_back(id)
        return [self._lease(id, session, now) for id in heads[:limit]]

    def _lease(self, id: TaskId, session: SessionId, now: Micros) -> Claim:
        task = self._tables.tasks[id]
        fence = next_fence(task.fence, epoch=self._tables.epoch, submitted=task.submitted)
        task = self._tables.move(id, State.LEASED, fence=fence, session=session, claimed=now)
        return Claim(Lease(id, fence, session), task)

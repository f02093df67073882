"""Claims in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.fence import next_fence
from windlass.core.lifecycle import State
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros
from windlass.stores.memory.base import MemoryBase
from windlass.stores.series import Point


class MemoryClaim(MemoryBase):
    """Claim tasks."""

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
            self._tables.live_session(session)
            now = self._clock.now()
            claims: list[Claim] = []
            running = [queue for queue in dict.fromkeys(queues) if not self._tables.queue(queue).paused]
            for group in [running] if merge else [[queue] for queue in running]:
                claims += self._claim_from(group, session, limit - len(claims), now, serves)
            return claims

    def _claim_from(
        self, queues: Sequence[str], session: SessionId, limit: int, now: Micros, serves: Serves
    ) -> list[Claim]:
        """Claim the first tasks of these queues, taken as one."""
        heads: list[TaskId] = []
        skipped: list[TaskId] = []
        seen: set[TaskId] = set()  # A task that was moved to another place may be in the heap more than once.
        for queue in queues:
            wanted = len(heads) + limit
            while len(heads) < wanted and (id := self._tables.first_runnable(queue)) is not None:
                if id in seen:
                    continue
                seen.add(id)
                task = self._tables.tasks[id]
                expired = task.expires is not None and task.expires <= now  # The sweep ends it.
                (skipped if expired or not serves.can_run(task.handler, task.rules) else heads).append(id)
        heads.sort(key=lambda id: (self._tables.places[id], id))
        for id in skipped + heads[limit:]:
            self._tables.put_back(id)
        return [self._lease(id, session, now) for id in heads[:limit]]

    def _lease(self, id: TaskId, session: SessionId, now: Micros) -> Claim:
        task = self._tables.tasks[id]
        fence = next_fence(task.fence, epoch=self._tables.epoch, submitted=task.submitted)
        wait, point = max(0, now - task.due), self._tables.point(task.queue, now)
        point.add(Point(at=point.at, started=1, waited=wait, longest_wait=wait))
        task = self._tables.move(id, State.LEASED, fence=fence, session=session, claimed=now)
        return Claim(Lease(id, fence, session), task)

"""What a pool holds: every lease from its claim until the end of the attempt is written in the store.

That is more than what its workers have: ends that the store has not taken yet are leases too, and a crash of the node
would run those tasks again. The claimer counts them all, so that a store that takes no ends gets no more claims.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from windlass.core.task import Claim, SessionId, TaskId

MOST_HELD = 2_000
"""How many leases a pool may hold beyond what its workers can run at once: waiting for their turn, or ended and not
yet written. Twice what the settler writes at once, so that a store that keeps up is never waited for."""


def claimable(room: int, slots: int, held: int) -> int:
    """Return how many tasks a pool may claim: what its workers have room for, within the bound on its leases."""
    return max(0, min(room, slots + MOST_HELD - held))


class Holdings:
    """The leases of one pool. Claims are added by its claimer, and removed by the settler once their end is written."""

    def __init__(self) -> None:
        self._leases: dict[SessionId, set[tuple[TaskId, int]]] = {}
        self._lock = threading.Lock()

    def add(self, claims: Iterable[Claim]) -> None:
        """These were claimed for the pool."""
        with self._lock:
            for claim in claims:
                lease = claim.lease
                self._leases.setdefault(lease.session, set()).add((lease.task, lease.fence))

    def remove(self, claims: Iterable[Claim]) -> None:
        """The ends of these are written; those of other pools may be among them."""
        with self._lock:
            for claim in claims:
                lease = claim.lease
                if lease.session in self._leases:
                    self._leases[lease.session].discard((lease.task, lease.fence))

    def count(self, holds: Callable[[SessionId], bool]) -> int:
        """Return how many leases there are. A session that is over holds none, whether ends were written or not."""
        with self._lock:
            self._leases = {session: leases for session, leases in self._leases.items() if holds(session)}
            return sum(map(len, self._leases.values()))

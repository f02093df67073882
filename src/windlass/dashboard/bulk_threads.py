"""Runs bulk actions in threads of the server. A short one ends within the request; a long one has a page of its own."""

from __future__ import annotations

import logging
from threading import Event

from windlass.clock import entropy, sleep
from windlass.errors import Refused, WindlassError
from windlass.operations import bulk_runs, undo
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.server.background import BackgroundThreads
from windlass.stores.protocol import Selection

logger = logging.getLogger("windlass.server")

PATIENCE = 1.0
"""How long a request waits for the end of an action."""
REPORT_SECONDS = 0.5
"""How often the progress of a long action is written."""
COUNT_EVERY = 4
"""After how many reports the tasks are counted that are left of an action that does not go in batches."""
TRIES = 10
"""How often the end of an action is written while the store does not answer."""

UNEXPECTED = "an unexpected error, see the server log"


class BulkThread:
    """One bulk action that runs in a thread."""

    def __init__(self, access: Access, verb: Verb, which: Selection, author: Author, q: str) -> None:
        self._access, self._author = access, author
        self._action = BulkAction(access, verb, which, author)
        self._verb, self._q, self._started = verb, q, access.now
        self._stop, self._ended, self._is_long = Event(), Event(), Event()
        self._counted, self._undo, self._problem = False, list[int](), ""
        self._left: int | None = None
        self.id = f"{entropy(1)():016x}"
        self.done = 0
        self.error: Exception | None = None

    def start(self, threads: BackgroundThreads) -> bool:
        """Start it, and wait for some time. Return True if it has ended; otherwise every server can show it."""
        threads.start(f"bulk-{self.id}-report", lambda: self._report(threads.stopping))
        try:
            threads.start(f"bulk-{self.id}", lambda: self._run(threads.stopping))
        except Refused:
            self._ended.set()
            raise
        if self._ended.wait(PATIENCE):
            return True
        self._is_long.set()
        bulk_runs.save(self._access.store, self._describe())
        return False

    def _run(self, stopping: Event) -> None:
        try:
            for _ in self._action.count_steps():
                if self._should_end(stopping):
                    return
            self._counted = True
            for done in self._action.run_steps():
                self.done = done
                if self._should_end(stopping):
                    break
            self._undo = undo.find_new(self._access, self._author.action_id)
        except Exception as error:
            self.error = error
            self._problem = str(error) if isinstance(error, WindlassError) else UNEXPECTED
            if not isinstance(error, WindlassError):
                logger.error("bulk action %s failed", self.id, exc_info=error)
        finally:
            self._ended.set()

    def _should_end(self, stopping: Event) -> bool:
        if stopping.is_set():
            self._problem = "the server was stopped"
        return self._stop.is_set() or stopping.is_set()

    def _report(self, stopping: Event) -> None:
        """Write the progress of a long action until it has ended, and then the end."""
        reports = 0
        while not self._ended.wait(REPORT_SECONDS):
            if not self._is_long.is_set():
                continue
            reports += 1
            try:
                if self._counted and reports % COUNT_EVERY == 0:
                    self._left = self._action.count_left()
                if bulk_runs.save(self._access.store, self._describe()).stop:
                    self._stop.set()
            except WindlassError as error:
                logger.warning("cannot write the progress of bulk action %s: %s", self.id, error)
        for _ in range(TRIES if self._is_long.is_set() else 0):
            try:
                bulk_runs.save(self._access.store, self._describe())
                bulk_runs.drop_old(self._access)
                return
            except WindlassError as error:
                logger.warning("cannot write the end of bulk action %s: %s", self.id, error)
                if stopping.is_set():
                    return
                sleep(1.0)

    def _describe(self) -> BulkRun:
        ended, caller, total = self._ended.is_set(), self._access.caller, self._action.total
        is_batched = self._verb is Verb.PURGE
        done = self.done if ended or is_batched or self._left is None else max(0, total - self._left)
        return BulkRun(
            id=self.id,
            verb=self._verb,
            q=self._q,
            by=self._author.by,
            tenant=caller.tenant,
            queue=caller.queue,
            started=self._started,
            at=self._access.now,
            total=total,
            exact=self._action.exact,
            counted=self._counted,
            done=done,
            in_steps=is_batched,
            stop=self._stop.is_set(),
            ended=ended,
            problem=self._problem,
            undo=self._undo,
        )

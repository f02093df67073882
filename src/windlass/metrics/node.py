"""Counts the events of a node for Prometheus.

Labels come from small sets: the reason of a resize is reduced to one word, and no task, tenant or worker has its own
series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram

from windlass.core.lifecycle import State
from windlass.events import (
    AttemptEnded,
    BreakerChanged,
    ControllerFailed,
    DutyFailed,
    Event,
    PoolResized,
    ReportRefused,
    SessionEnded,
    SettingsRefused,
    SignalFailed,
    StoreCallFailed,
    TaskBounced,
    WorkerParentFailed,
    WorkerStateChanged,
)
from windlass.metrics.families import AROUND_ZERO, LONG, SHORT, Family, counter, gauge, histogram

TASKS = Family("windlass_tasks_total", "Settled attempts.", ("handler", "queue", "outcome"), "counter")
DURATION = Family("windlass_task_duration_seconds", "Run time of attempts.", ("handler", "queue"), "histogram", LONG)
WAIT = Family(
    "windlass_queue_wait_seconds", "Time between a task's due time and its lease.", ("queue",), "histogram", LONG
)
RETRIES = Family("windlass_retries_total", "Attempts that are followed by a retry.", ("handler", "queue"), "counter")
DEAD = Family("windlass_dead_lettered_total", "Tasks that used up their attempts.", ("handler", "queue"), "counter")
MISSED = Family("windlass_deadline_missed_total", "Tasks that finished after their deadline.", ("queue",), "counter")
SLACK = Family(
    "windlass_deadline_slack_seconds",
    "Time left until the deadline when a task finished.",
    ("queue",),
    "histogram",
    AROUND_ZERO,
)
STALE = Family(
    "windlass_stale_reports_total",
    "Attempts refused because their lease had ended.",
    ("handler",),
    "counter",
)
BOUNCED = Family(
    "windlass_tasks_bounced_total", "Tasks released because no worker here has their handler.", ("handler",), "counter"
)
LOST = Family("windlass_sessions_lost_total", "Sessions lost by this node, with all of its leases.", (), "counter")
TROUBLES = Family("windlass_store_troubles_total", "Failed or refused calls to the store.", ("doing",), "counter")
UNWRITTEN = Family("windlass_unwritten_ends", "Finished attempts that the store has not accepted yet.")
STARTS = Family("windlass_worker_start_seconds", "Start time of workers.", ("pool",), "histogram", SHORT)
DEATHS = Family("windlass_worker_deaths_total", "Workers that died or were killed.", ("pool",), "counter")
PARENT = Family(
    "windlass_worker_parent_failures_total", "Failures of the worker parent or of start hooks.", (), "counter"
)
RESIZES = Family("windlass_pool_resizes_total", "Changes of a pool's size.", ("pool", "direction", "reason"), "counter")
TURNS = Family(
    "windlass_breaker_turns_total", "Changes of circuit breakers by this node.", ("downstream", "state"), "counter"
)
DUTIES = Family("windlass_duty_failures_total", "Unexpected errors in a thread of the node.", ("duty",), "counter")
CONTROLLER = Family("windlass_controller_failures_total", "Controller ticks that failed.", ("pool",), "counter")
SIGNALS = Family(
    "windlass_signal_failures_total", "External signals that could not be read.", ("pool", "signal"), "counter"
)
SETTINGS = Family("windlass_settings_refused_total", "Invalid settings files that were ignored.", (), "counter")

FAMILIES = (
    TASKS,
    DURATION,
    WAIT,
    RETRIES,
    DEAD,
    MISSED,
    SLACK,
    STALE,
    BOUNCED,
    LOST,
    TROUBLES,
    UNWRITTEN,
    STARTS,
    DEATHS,
    PARENT,
    RESIZES,
    TURNS,
    DUTIES,
    CONTROLLER,
    SIGNALS,
    SETTINGS,
)

_DOINGS = ("claim", "settle", "renew", "sweep", "fire", "open", "close", "size", "write", "publish", "read")

# The first match counts: a reason that a person wrote may contain any of the later ones.
_REASONS: Mapping[str, str] = {
    "set to ": "override",
    "paused": "paused",
    "by hand": "hand",
    "by a signal": "hand",
    "as configured": "settings",
    "veto:": "veto",
    "no data": "stale",
    "needs": "load",
}


class NodeMetrics:
    """Counts the events of a node: a listener for `Events.listen` with its own registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._counters = {each.name: counter(each, self.registry) for each in FAMILIES if each.kind == "counter"}
        self._histograms = {each.name: histogram(each, self.registry) for each in FAMILIES if each.bounds}
        self._unwritten = gauge(UNWRITTEN, self.registry)
        # Finding a series by its labels costs more than counting in it, and attempts end by the thousand.
        self._counted: dict[tuple[str, tuple[str, ...]], Counter] = {}
        self._measured: dict[tuple[str, tuple[str, ...]], Histogram] = {}

    def watch(self, unwritten: Callable[[], int]) -> None:
        """Read the number of unsettled attempts from the node at each scrape."""
        self._unwritten.set_function(unwritten)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        match event:
            case AttemptEnded():
                self._ended(event)
            case WorkerStateChanged():
                self._moved(event)
            case PoolResized(pool=pool, before=before, after=after, why=why):
                self._count(RESIZES, pool, "up" if after > before else "down", resize_reason(why))
            case ReportRefused(handler=handler):
                self._count(STALE, handler)
            case TaskBounced(handler=handler):
                self._count(BOUNCED, handler)
            case SessionEnded(why=why) if why != "closed":
                self._count(LOST)
            case StoreCallFailed(doing=doing):
                self._count(TROUBLES, operation_name(doing))
            case BreakerChanged(downstream=downstream, after=after):
                self._count(TURNS, downstream, after)
            case DutyFailed(duty=duty):
                self._count(DUTIES, duty)
            case ControllerFailed(pool=pool):
                self._count(CONTROLLER, pool)
            case SignalFailed(pool=pool, signal=signal):
                self._count(SIGNALS, pool, signal)
            case WorkerParentFailed():
                self._count(PARENT)
            case SettingsRefused():
                self._count(SETTINGS)
            case _:
                pass

    def _ended(self, event: AttemptEnded) -> None:
        # A task that is runnable again without delay has lost its worker.
        outcome = "crashed" if event.state is State.RUNNABLE else event.state.value
        self._count(TASKS, event.handler, event.queue, outcome)
        self._measure(DURATION, event.seconds, event.handler, event.queue)
        self._measure(WAIT, event.waited, event.queue)
        if event.state is State.RETRYING:
            self._count(RETRIES, event.handler, event.queue)
        if event.state is State.FAILED:
            self._count(DEAD, event.handler, event.queue)
        if event.deadline_slack is not None and event.state.final and event.state is not State.CANCELLED:
            self._measure(SLACK, event.deadline_slack, event.queue)
            if event.deadline_slack < 0:
                self._count(MISSED, event.queue)

    def _moved(self, event: WorkerStateChanged) -> None:
        if event.before == "starting" and event.after == "idle":
            self._measure(STARTS, event.seconds, event.pool)
        elif event.after == "failed":
            self._count(DEATHS, event.pool)

    def _count(self, family: Family, *labels: str) -> None:
        key = (family.name, labels)
        series = self._counted.get(key)
        if series is None:
            found = self._counters[family.name]
            series = self._counted[key] = found.labels(*labels) if labels else found
        series.inc()

    def _measure(self, family: Family, value: float, *labels: str) -> None:
        key = (family.name, labels)
        series = self._measured.get(key)
        if series is None:
            series = self._measured[key] = self._histograms[family.name].labels(*labels)
        series.observe(value)


def resize_reason(why: str) -> str:
    """Return the reason of a resize as one word."""
    return next((word for part, word in _REASONS.items() if part in why), "other")


def operation_name(doing: str) -> str:
    """Return the failed store operation as one word, without the task or cron."""
    word = doing.partition(" ")[0]
    return word if word in _DOINGS else "other"

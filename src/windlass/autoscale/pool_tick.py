"""One tick of one pool: from a snapshot of the store to the decision and ledger entries to write.

Every node computes the tick, and the first write counts. A pool without work writes nothing. The tick that ends the
quiet time first replays the quiet seconds, so that the controller sees a burst after silence as a burst.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.controller import ControllerState, Decision, describe_situation
from windlass.autoscale.controller import tick as decide
from windlass.autoscale.observe import SECOND, NodeReport, Observation, PoolReport, observe
from windlass.autoscale.settings import Settings
from windlass.autoscale.shares import divide_target
from windlass.autoscale.stored_state import OVERRIDES, POOL, PoolDecision, PoolOverrides, decode_document
from windlass.core import breaker as breakers
from windlass.custom_decider import PREFIX, PoolSituation
from windlass.stores.coordination import Control, Entry, Look

IDLE_WRITES = 60
"""Seconds after which even a pool without work writes a decision."""
REPLAYED = 120
"""Quiet seconds that are replayed: the length of the slow window of the arrival rate."""
REPEAT_HOLD = 300
"""Seconds after which a hold for the same reason is written to the ledger again."""
CLOCK_SET_BACK = 5


class TickResult(Struct, frozen=True, kw_only=True):
    """The result of a tick, to be written if no other node has decided in the meantime."""

    decision: PoolDecision
    expect: int
    entries: tuple[Entry, ...] = ()


def read_reports(look: Look) -> dict[str, NodeReport]:
    """Return the reports of live nodes by session. Unreadable reports are skipped."""
    found: dict[str, NodeReport] = {}
    for each in look.reports:
        try:
            found[str(each.session)] = msgspec.json.decode(each.report, type=NodeReport)
        except msgspec.DecodeError:
            continue
    return found


def find_control(look: Look, kind: str, name: str) -> Control | None:
    """Return the control of this kind and name; None if there is none."""
    return next((each for each in look.controls if each.kind == kind and each.name == name), None)


def read_decision(look: Look, pool: str) -> tuple[PoolDecision, int]:
    """Return the latest decision and its version."""
    control = find_control(look, POOL, pool)
    return (PoolDecision(), 0) if control is None else (decode_document(control.value, PoolDecision), control.version)


def read_overrides(look: Look, pool: str) -> tuple[PoolOverrides, int]:
    """Return the operators' overrides and their version."""
    control = find_control(look, OVERRIDES, pool)
    return (PoolOverrides(), 0) if control is None else (decode_document(control.value, PoolOverrides), control.version)


def decide_tick(pool: str, look: Look, members: Mapping[str, PoolReport], by: str) -> TickResult | None:
    """Decide the next tick of a pool; None if it is decided already, or if there is nothing to decide."""
    last, version = read_decision(look, pool)
    overrides, version_of_overrides = read_overrides(look, pool)
    second = look.now // SECOND
    if not members or last.tick - CLOCK_SET_BACK <= second <= last.tick:
        return None
    threads = max(report.threads for report in members.values())
    queues = tuple(sorted({queue for report in members.values() for queue in report.queues}))
    if not last.tick:  # The first tick adopts the current size.
        workers = sum(report.target for report in members.values())
        last = replace(last, target=workers, slots=workers * threads)
    now = replace(
        last,
        tick=second,
        by=by,
        threads=threads,
        queues=queues,
        settings=resolve_settings(members, overrides),
        order=version_of_overrides,
        alerts=(),
    )
    if all(report.fixed for report in members.values()):
        decided, entries = decide_fixed_size(pool, last, now, overrides)
    elif (found := decide_size(pool, look, members, last, now, overrides)) is not None:
        decided, entries = found
    else:
        return None
    return None if decided is last else TickResult(decision=decided, expect=version, entries=entries)


def resolve_settings(members: Mapping[str, PoolReport], overrides: PoolOverrides) -> Settings:
    """Return the effective settings: those of the newest node, the sum of all bounds in slots, and tuned values."""
    newest = members[max(members)]
    tuned = overrides.tune(
        replace(
            newest.settings,
            min=sum(report.min for report in members.values()),
            max=sum(report.max for report in members.values()),
        )
    )
    threads = max(report.threads for report in members.values())
    most = max(0, tuned.max) * threads
    return replace(tuned, min=min(tuned.min * threads, most), max=most)


def describe_situations(pool: str, look: Look, members: Mapping[str, PoolReport]) -> dict[str, PoolSituation]:
    """Return the input for each decider of the app, by name; empty for a pool of fixed size."""
    if not members or all(report.fixed for report in members.values()):
        return {}
    last, _ = read_decision(look, pool)
    overrides, _ = read_overrides(look, pool)
    settings = resolve_settings(members, overrides)
    names = [name for name in settings.deciders if name.startswith(PREFIX)]
    if not names:
        return {}
    seen, _ = observe(look, members, last.seen)
    threads = max(report.threads for report in members.values())
    found = describe_situation(pool, look.now / SECOND, seen, last.state, settings, threads, last.slots)
    return dict.fromkeys(names, found)


def apply_downstream_limit(settings: Settings, limit: int | None) -> Settings:
    """Return the settings with the limit of a signal as their maximum, even below the minimum."""
    if limit is None or limit >= settings.max:
        return settings
    return replace(settings, min=min(settings.min, limit), max=limit)


def decide_fixed_size(
    pool: str, last: PoolDecision, now: PoolDecision, overrides: PoolOverrides
) -> tuple[PoolDecision, tuple[Entry, ...]]:
    """Decide a pool of fixed size, which only operators change. Return the last decision if nothing changes."""
    size = now.settings.max // now.threads
    override = overrides.override
    if override is not None and not override.is_active(now.tick):
        override = None
    target = size if override is None else override.apply(size)
    target = 0 if overrides.paused is not None else target
    same = (last.target, last.order, last.queues, last.threads) == (target, now.order, now.queues, now.threads)
    if last.tick and same:
        return last, ()
    why = "paused" if overrides.paused else override.describe() if override else "as configured on its nodes"
    sentence = f"{format_change(last.target, target)}  {why}"
    decided = replace(
        now,
        target=target,
        slots=target * now.threads,
        sentence=sentence,
        reasons=(why,),
        needs=float(size),
        state=ControllerState(target=size * now.threads),
    )
    return decided, (make_entry(pool, now.by, last.target, target, sentence),) if target != last.target else ()


def decide_size(
    pool: str,
    look: Look,
    members: Mapping[str, PoolReport],
    last: PoolDecision,
    now: PoolDecision,
    overrides: PoolOverrides,
) -> tuple[PoolDecision, tuple[Entry, ...]] | None:
    """Decide an autoscaled pool; None while a quiet pool stays quiet."""
    seen, after = observe(look, members, last.seen)
    seen = replace(seen, breaker=read_breaker(look, members))
    now = replace(now, settings=apply_downstream_limit(now.settings, seen.limit))
    still = is_quiet(seen) and not asks_for_more(seen, last.slots)
    if last.idle and still and is_unchanged(last, now, overrides) and now.tick - last.tick < IDLE_WRITES:
        return None
    state = catch_up(last, now, seen) if last.idle else last.state
    decision = decide(float(now.tick), seen, replace(now, state=state).apply_overrides(overrides), now.settings)
    target = ceil(decision.target / now.threads)
    smallest = decision.target <= max(now.settings.min, 0) or bool(overrides.override) or bool(overrides.paused)
    decided = replace(
        now,
        target=target,
        slots=decision.target,
        idle=still and smallest and decision.target == last.slots,
        sentence=decision.summarize(last.slots),
        reasons=decision.reasons,
        alerts=decision.alerts,
        needs=decision.needs,
        state=decision.state,
        seen=after,
    )
    return add_ledger_entries(pool, last, decided, decision, seen)


def is_unchanged(last: PoolDecision, now: PoolDecision, overrides: PoolOverrides) -> bool:
    """Return True if overrides, settings and queues are the same, and no override has expired in between."""
    override = overrides.override
    expired = override is not None and override.is_active(last.tick) and not override.is_active(now.tick)
    return not expired and (last.order, last.settings, last.queues) == (now.order, now.settings, now.queues)


def is_quiet(seen: Observation) -> bool:
    """Return True if there is nothing to run, now or soon."""
    here = seen.queued or seen.running or seen.arrivals or seen.starting or seen.draining or seen.deaths
    return not here and not seen.due_within(seen.start_delay + 3)


def asks_for_more(seen: Observation, slots: int) -> bool:
    """Return True if a signal or a decider of the app asks for more slots."""
    return max([seen.asked or 0, *seen.decided.values()]) > slots


def catch_up(last: PoolDecision, now: PoolDecision, seen: Observation) -> ControllerState:
    """Return the controller's state after replaying the quiet seconds between two ticks."""
    nothing = Observation(ready=seen.ready, start_delay=seen.start_delay)
    state = last.state
    for second in range(max(last.tick + 1, now.tick - REPLAYED), now.tick):
        state = decide(float(second), nothing, state, now.settings).state
    return state


def read_breaker(look: Look, members: Mapping[str, PoolReport]) -> str:
    """Return the state of the breaker that all tasks of the pool depend on; `closed` without one."""
    names = {report.downstream for report in members.values()}
    name = names.pop() if len(names) == 1 else ""
    control = find_control(look, "breaker", name) if name else None
    return "closed" if control is None else breakers.advance(breakers.decode(control.value), look.now).state.value


def add_ledger_entries(
    pool: str, last: PoolDecision, decided: PoolDecision, decision: Decision, seen: Observation
) -> tuple[PoolDecision, tuple[Entry, ...]]:
    """Return the decision with its ledger entries: each resize, each hold, and each new alert."""
    entries: list[Entry] = []
    data = msgspec.json.encode(
        {
            "tick": decided.tick,
            "before": last.target,
            "after": decided.target,
            "wanted": decision.wanted,
            "needs": decision.needs,
            "limited_by": decision.limited_by,
            "reasons": decision.reasons,
            "observation": seen,
            "min": decided.settings.min,
            "max": decided.settings.max,
        }
    ).decode()
    at_min = decision.wanted < decision.target <= decided.settings.min
    held = decision.limited_by if decision.wanted != decision.target == last.slots and not at_min else ""
    if decided.target != last.target:
        entries.append(make_entry(pool, decided.by, last.target, decided.target, decided.sentence, data))
        decided = replace(decided, reported=decision.limited_by, reported_at=decided.tick)
    elif held and (held != last.reported or decided.tick - last.reported_at >= REPEAT_HOLD):
        entries.append(Entry(subject=f"pool/{pool}", action="held", text=decided.sentence, by=decided.by, data=data))
        decided = replace(decided, reported=held, reported_at=decided.tick)
    new = sorted({*decided.alerts} - {*last.alerts})
    alerts = [Entry(subject=f"pool/{pool}", action="alert", text=alert, by=decided.by, data=data) for alert in new]
    return decided, (*entries, *alerts)


def make_entry(pool: str, by: str, before: int, after: int, text: str, data: str = "") -> Entry:
    """Return the ledger entry of a resize."""
    action = "grew" if after > before else "shrank" if after < before else "held"
    return Entry(subject=f"pool/{pool}", action=action, text=text, by=by, data=data)


def format_change(before: int, after: int) -> str:
    """Format a change of size."""
    return f"= {after}" if before == after else f"{'▲' if after > before else '▼'} {before}→{after}"


def compute_share(session: str, target: int, members: Mapping[str, PoolReport]) -> int:
    """Return the share of the target that this session runs. Overrides may exceed the usual maximums."""
    maximums = {each: report.max for each, report in members.items()}
    if target > sum(maximums.values()):
        maximums = {each: max(report.override_max, report.max) for each, report in members.items()}
    return divide_target(target, maximums).get(session, 0)

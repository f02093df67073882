"""One tick of one pool, from what the store shows to what is to be written there. Pure; every node can do it.

Whoever writes first has decided; the others read. A pool with nothing to do writes nothing, and the tick that wakes it
first lives through the quiet seconds, so that a burst after silence is seen for what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""Ticks after which even a pool with nothing to do says that it is alive."""
CAUGHT_UP = 120
"""Quiet seconds that are lived through before the tick that ends them: what the slow window of the rates spans."""
TOLD_AGAIN = 300
"""Seconds after which a hold for the same reason is entered again."""
CLOCK_SET_BACK = 5


class TickResult(Struct, frozen=True, kw_only=True):
    """What a tick came to, to be written if nobody else has decided it meanwhile."""

    decision: PoolDecision
    expect: int
    entries: tuple[Entry, ...] = ()


def read_reports(look: Look) -> dict[str, NodeReport]:
    """What the live nodes say, by session. A report that cannot be read is as good as none."""
    found: dict[str, NodeReport] = {}
    for each in look.reports:
        try:
            found[str(each.session)] = msgspec.json.decode(each.report, type=NodeReport)
        except msgspec.DecodeError:
            continue
    return found


def find_control(look: Look, kind: str, pool: str) -> Control | None:
    """A document of this pool."""
    return next((each for each in look.controls if each.kind == kind and each.name == pool), None)


def read_decision(look: Look, pool: str) -> tuple[PoolDecision, int]:
    """The decision that stands, and its version."""
    control = find_control(look, POOL, pool)
    return (PoolDecision(), 0) if control is None else (decode_document(control.value, PoolDecision), control.version)


def read_overrides(look: Look, pool: str) -> tuple[PoolOverrides, int]:
    """What people have ordered, and the version of it."""
    control = find_control(look, OVERRIDES, pool)
    return (PoolOverrides(), 0) if control is None else (decode_document(control.value, PoolOverrides), control.version)


def decide_tick(pool: str, look: Look, members: Mapping[str, PoolReport], by: str) -> TickResult | None:
    """The next tick of a pool; None when it is decided already, or when there is nothing to decide."""
    last, version = read_decision(look, pool)
    order, order_version = read_overrides(look, pool)
    second = look.now // SECOND
    if not members or last.tick - CLOCK_SET_BACK <= second <= last.tick:
        return None
    threads = max(report.threads for report in members.values())
    queues = tuple(sorted({queue for report in members.values() for queue in report.queues}))
    if not last.tick:  # The first one adopts what it finds.
        workers = sum(report.target for report in members.values())
        last = replace(last, target=workers, slots=workers * threads)
    now = replace(
        last,
        tick=second,
        by=by,
        threads=threads,
        queues=queues,
        settings=resolve_settings(members, order),
        order=order_version,
        alerts=(),
    )
    if all(report.fixed for report in members.values()):
        ruled, entries = decide_fixed_size(pool, last, now, order)
    elif (found := decide_size(pool, look, members, last, now, order)) is not None:
        ruled, entries = found
    else:
        return None
    return None if ruled is last else TickResult(decision=ruled, expect=version, entries=entries)


def resolve_settings(members: Mapping[str, PoolReport], order: PoolOverrides) -> Settings:
    """The settings that count, bounds in slots: the newest node's words, the sum of all bounds, what was tuned."""
    newest = members[max(members)]
    tuned = order.tune(
        replace(
            newest.settings,
            floor=sum(report.floor for report in members.values()),
            ceiling=sum(report.ceiling for report in members.values()),
        )
    )
    threads = max(report.threads for report in members.values())
    ceiling = max(0, tuned.ceiling) * threads
    return replace(tuned, floor=min(tuned.floor * threads, ceiling), ceiling=ceiling)


def describe_situations(pool: str, look: Look, members: Mapping[str, PoolReport]) -> dict[str, PoolSituation]:
    """Return what the pool's deciders of the app are to be asked now, by name; nothing for a pool of a given size."""
    if not members or all(report.fixed for report in members.values()):
        return {}
    last, _ = read_decision(look, pool)
    order, _ = read_overrides(look, pool)
    settings = resolve_settings(members, order)
    names = list_app_deciders(settings)
    if not names:
        return {}
    seen, _ = observe(look, members, last.seen)
    threads = max(report.threads for report in members.values())
    found = describe_situation(pool, look.now / SECOND, seen, last.state, settings, threads, last.slots)
    return dict.fromkeys(names, found)


def apply_downstream_limit(settings: Settings, limit: int | None) -> Settings:
    """The settings under what a downstream can bear: a ceiling that is kept at once, above or below the floor."""
    if limit is None or limit >= settings.ceiling:
        return settings
    return replace(settings, floor=min(settings.floor, limit), ceiling=limit)


def decide_fixed_size(
    pool: str, last: PoolDecision, now: PoolDecision, order: PoolOverrides
) -> tuple[PoolDecision, tuple[Entry, ...]]:
    """A pool of a given size: only people change it. Nothing is written as long as nothing changes."""
    size = now.settings.ceiling // now.threads
    override = order.override if order.override is not None and order.override.is_active(now.tick) else None
    target = size if override is None else override.apply(size)
    target = 0 if order.paused is not None else target
    if (
        last.tick
        and target == last.target
        and (last.order, last.queues, last.threads)
        == (
            now.order,
            now.queues,
            now.threads,
        )
    ):
        return last, ()
    why = "paused" if order.paused else override.describe() if override else "as its nodes were told"
    sentence = f"{format_change(last.target, target)}  {why}"
    ruled = replace(
        now,
        target=target,
        slots=target * now.threads,
        sentence=sentence,
        reasons=(why,),
        needs=float(size),
        state=ControllerState(target=size * now.threads),
    )
    return ruled, (make_entry(pool, now.by, last.target, target, sentence),) if target != last.target else ()


def decide_size(
    pool: str,
    look: Look,
    members: Mapping[str, PoolReport],
    last: PoolDecision,
    now: PoolDecision,
    order: PoolOverrides,
) -> tuple[PoolDecision, tuple[Entry, ...]] | None:
    """A pool that sizes itself; None while a quiet one stays quiet."""
    seen, after = observe(look, members, last.seen)
    seen = replace(seen, breaker=read_breaker(look, members))
    now = replace(now, settings=apply_downstream_limit(now.settings, seen.limit))
    still = is_quiet(seen) and not asks_for_more(seen, last.slots)
    if last.idle and still and is_unchanged(last, now, order) and now.tick - last.tick < IDLE_WRITES:
        return None
    state = catch_up(last, now, seen) if last.idle else last.state
    decision = decide(float(now.tick), seen, replace(now, state=state).apply_overrides(order), now.settings)
    target = ceil(decision.target / now.threads)
    smallest = decision.target <= max(now.settings.floor, 0) or bool(order.override) or bool(order.paused)
    ruled = replace(
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
    return add_ledger_entries(pool, last, ruled, decision, seen)


def is_unchanged(last: PoolDecision, now: PoolDecision, order: PoolOverrides) -> bool:
    """Whether the same was ordered and told at both ticks, and no order has run out between them."""
    override = order.override
    ran_out = override is not None and override.is_active(last.tick) and not override.is_active(now.tick)
    return not ran_out and (last.order, last.settings, last.queues) == (now.order, now.settings, now.queues)


def is_quiet(seen: Observation) -> bool:
    """Whether there is nothing to run, now or soon."""
    here = seen.queued or seen.running or seen.arrivals or seen.starting or seen.draining or seen.deaths
    return not here and not seen.due_within(seen.start_delay + 3)


def asks_for_more(seen: Observation, slots: int) -> bool:
    """Return whether a signal or a decider of the app asks for more than there is, though there is nothing to run."""
    return max([seen.asked or 0, *seen.decided.values()]) > slots


def catch_up(last: PoolDecision, now: PoolDecision, seen: Observation) -> ControllerState:
    """The controller's state after the quiet seconds between two ticks."""
    nothing = Observation(ready=seen.ready, start_delay=seen.start_delay)
    state = last.state
    for second in range(max(last.tick + 1, now.tick - CAUGHT_UP), now.tick):
        state = decide(float(second), nothing, state, now.settings).state
    return state


def read_breaker(look: Look, members: Mapping[str, PoolReport]) -> str:
    """The state of the breaker that all tasks of the pool stand behind; closed when there is no such one."""
    names = {report.downstream for report in members.values()}
    name = names.pop() if len(names) == 1 else ""
    control = find_control(look, "breaker", name) if name else None
    return "closed" if control is None else breakers.advance(breakers.decode(control.value), look.now).state.value


def add_ledger_entries(
    pool: str, last: PoolDecision, ruled: PoolDecision, decision: Decision, seen: Observation
) -> tuple[PoolDecision, tuple[Entry, ...]]:
    """The decision with its lines in the ledger: every change, every hold against a wish, every new alert."""
    entries: list[Entry] = []
    data = msgspec.json.encode(
        {
            "tick": ruled.tick,
            "before": last.target,
            "after": ruled.target,
            "wanted": decision.wanted,
            "needs": decision.needs,
            "limited_by": decision.limited_by,
            "reasons": decision.reasons,
            "observation": seen,
            "floor": ruled.settings.floor,
            "ceiling": ruled.settings.ceiling,
        }
    ).decode()
    at_floor = decision.wanted < decision.target <= ruled.settings.floor
    held = decision.limited_by if decision.wanted != decision.target == last.slots and not at_floor else ""
    if ruled.target != last.target:
        entries.append(make_entry(pool, ruled.by, last.target, ruled.target, ruled.sentence, data))
        ruled = replace(ruled, told=decision.limited_by, told_at=ruled.tick)
    elif held and (held != last.told or ruled.tick - last.told_at >= TOLD_AGAIN):
        entries.append(Entry(subject=f"pool/{pool}", action="held", text=ruled.sentence, by=ruled.by, data=data))
        ruled = replace(ruled, told=held, told_at=ruled.tick)
    new = sorted({*ruled.alerts} - {*last.alerts})
    alerts = [Entry(subject=f"pool/{pool}", action="alert", text=alert, by=ruled.by, data=data) for alert in new]
    return ruled, (*entries, *alerts)


def make_entry(pool: str, by: str, before: int, after: int, text: str, data: str = "") -> Entry:
    """The line for a change of size."""
    action = "grew" if after > before else "shrank" if after < before else "held"
    return Entry(subject=f"pool/{pool}", action=action, text=text, by=by, data=data)


def format_change(before: int, after: int) -> str:
    """A change in short."""
    return f"= {after}" if before == after else f"{'▲' if after > before else '▼'} {before}→{after}"


def compute_share(session: str, target: int, members: Mapping[str, PoolReport]) -> int:
    """How many of the workers this session runs. What is ordered by hand may go beyond the usual ceilings."""
    ceilings = {each: report.ceiling for each, report in members.items()}
    if target > sum(ceilings.values()):
        ceilings = {each: max(report.most, report.ceiling) for each, report in members.items()}
    return divide_target(target, ceilings).get(session, 0)


def list_app_deciders(settings: Settings) -> Sequence[str]:
    """Return the names of the deciders that are functions of the app, as they stand in the settings."""
    return [name for name in settings.deciders if name.startswith(PREFIX)]

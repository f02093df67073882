"""Format the results of all rounds as one table for each workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.cost import Cost
from benchmarks.table import format_columns, format_markdown, format_microseconds

Rounds = Sequence[Cost | str | None]
"""One result of each round: a cost, None if the system does not support the workload, or why it failed."""

MICROSECONDS = ("server", "background", "client", "node", "workers")
HEAD = ("system", *MICROSECONDS, "sum µs (lowest–highest)", "cores", "tasks/s (lowest–highest)")
TITLES = {
    "drain": "drain: waiting no-ops, after the first tenth",
    "bulk": "bulk submit, in batches of 1,000",
    "single": "single enqueue calls of one client",
    "chain": "chain: tasks that run one after the other",
    "fan": "fan: one task, then many, then one",
    "latency": "latency: single tasks on an idle system",
    "threads": "single enqueue calls of 16 threads",
    "coroutines": "single enqueue calls of 16 asyncio tasks",
    "both": "single enqueue calls of one client while the workers run",
    "crash": "crash: from the kill -9 until the task runs again",
    "memory": "memory of Windlass",
}
EXTRA = {"chain": ("seconds",), "fan": ("seconds",), "latency": ("p50 ms", "p99 ms")}


def format_costs(workload: str, found: Iterable[tuple[str, Rounds]], *, markdown: bool) -> str:
    """Return the table of one workload.

    A line shows the round with the median sum, so that it adds up, and the lowest and highest of all rounds.
    """
    head = (*HEAD, *EXTRA.get(workload, ()))
    lines: list[list[str]] = []
    not_offered: list[str] = []
    for title, rounds in found:
        if any(one is not None for one in rounds):
            lines.append(_format_line(workload, title, rounds, len(head)))
        else:
            not_offered.append(title)
    table = (format_markdown if markdown else format_columns)(head, lines, right=range(1, len(head)))
    missing = f"\n\nNot supported: {', '.join(not_offered)}." if not_offered else ""
    return f"{TITLES[workload]}\n\n{table}{missing}"


def format_windows(found: Iterable[tuple[str, Rounds]], *, markdown: bool) -> str:
    """Return how the CPU time and the rate of each drain changed from its second to its last tenth."""
    drains = {title: cost for title, rounds in found if (cost := choose_median(rounds)) is not None}
    lines = [
        [
            str(number),
            *(f"{part.microseconds.total:.1f} µs, {part.rate:,.0f}/s" for part in parts),
        ]
        for number, parts in enumerate(zip(*(cost.windows for cost in drains.values()), strict=True), 2)
    ]
    return (format_markdown if markdown else format_columns)(["tenth", *drains], lines, right=range(1, len(drains) + 1))


def format_waits(found: Iterable[tuple[str, Rounds]], *, markdown: bool) -> str:
    """Return what the active server processes waited for during each drain: the share of all samples."""
    drains = {
        title: cost.waits for title, rounds in found if (cost := choose_median(rounds)) is not None and cost.waits
    }
    waits = sorted({wait for one in drains.values() for wait in one}, key=lambda wait: -max(_get_shares(drains, wait)))
    lines = [[wait, *(f"{share:.1%}" for share in _get_shares(drains, wait))] for wait in waits]
    return (format_markdown if markdown else format_columns)(["wait", *drains], lines, right=range(1, len(drains) + 1))


def _get_shares(drains: Mapping[str, Mapping[str, float]], wait: str) -> list[float]:
    return [waits.get(wait, 0.0) for waits in drains.values()]


def format_facts(what: str, found: Mapping[str, Mapping[str, float | str]], *, markdown: bool) -> str:
    """Return the table of something that was measured once."""
    heads = list(dict.fromkeys(name for facts in found.values() for name in facts))
    lines = [[title, *(_format_fact(facts.get(name)) for name in heads)] for title, facts in found.items() if facts]
    table = (format_markdown if markdown else format_columns)(["system", *heads], lines, right=range(1, len(heads) + 1))
    return f"{TITLES[what]}\n\n{table}"


def format_configurations(systems: Sequence[tuple[str, str]]) -> str:
    """Return one line with the configuration of each system."""
    return "\n".join(f"- {title}: {what}." for title, what in systems)


def choose_median(rounds: Rounds) -> Cost | None:
    """Return the round with the median CPU time, the lower one of two, or None if no round succeeded."""
    costs = sorted(_list_costs(rounds), key=_get_sum)
    return costs[(len(costs) - 1) // 2] if costs else None


def describe_cost(cost: Cost) -> str:
    """Return a cost in a few words, for the progress."""
    used = cost.microseconds
    parts = [f"{role} {value:.1f}" for role in MICROSECONDS if (value := getattr(used, role)) is not None]
    return f"{used.total:.1f} µs ({', '.join(parts)}), {cost.cores:.2f} cores, {cost.rate:,.0f} tasks/s"


def _format_line(workload: str, title: str, rounds: Rounds, width: int) -> list[str]:
    median, costs = choose_median(rounds), _list_costs(rounds)
    failed = len(rounds) - len(costs)
    if median is None:
        return [title, *(["failed"] * (width - 1))]
    used = median.microseconds
    line = [
        f"{title}, {failed} failed" if failed else title,
        *(format_microseconds(getattr(used, role)) for role in MICROSECONDS),
        _format_range(used.total, map(_get_sum, costs), format_microseconds),
        f"{median.cores:.2f}",
        _format_range(median.rate, (one.rate for one in costs), "{:,.0f}".format),
    ]
    if workload == "latency":
        line += [f"{median.p50:.1f}", f"{median.p99:.1f}"]
    elif workload in EXTRA:
        line += [_format_range(median.seconds, (one.seconds for one in costs), "{:.2f}".format)]
    return line


def _list_costs(rounds: Rounds) -> list[Cost]:
    return [one for one in rounds if isinstance(one, Cost)]


def _get_sum(cost: Cost) -> float:
    return cost.microseconds.total


def _format_range(value: float, values: Iterable[float], form: Callable[[float], str]) -> str:
    """Return a value with the lowest and the highest one, if there are several."""
    several = list(values)
    return f"{form(value)} ({form(min(several))}–{form(max(several))})" if len(several) > 1 else form(value)


def _format_fact(value: float | str | None) -> str:
    return (
        "–" if value is None else value if isinstance(value, str) else f"{value:.2f}" if value < 10 else f"{value:.0f}"
    )

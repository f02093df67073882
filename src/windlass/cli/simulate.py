"""`windlass pool simulate`: play a load in simulated time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from windlass.cli.shapes import print_json, print_table
from windlass.cli.stores import json_option, opened, store_option
from windlass.clock import SystemClock
from windlass.core.times import duration
from windlass.custom_decider import PREFIX
from windlass.simulation.bound import compute_bound
from windlass.simulation.charts import format_seconds, write_chart
from windlass.simulation.load import DISTRIBUTIONS, Load, LoadOverrides
from windlass.simulation.load_sources import adjust_load, find_load, normalize_name, read_history
from windlass.simulation.policies import AppDecider, find_policies, play, play_app_decider
from windlass.simulation.run import SimulationResult, Timeline
from windlass.simulation.scenarios import SCENARIOS
from windlass.wiring import DEFAULT_URL

HEADS = ("policy", "late", "p99 wait", "cost", "resizes/h", "recovery", "score")


@click.command()
@click.argument("load", required=False, metavar="[LOAD|FILE.csv]")
@store_option
@click.option("--since", default="1h", show_default=True, help="With --store: how far back its history is played.")
@click.option("--queue", help="With --store: one queue alone.")
@click.option(
    "--policy", "policies", multiple=True, default=("slo",), show_default=True, help="Again for more, or all."
)
@click.option("--app", "target", metavar="MODULE:NAME", help="The app that has the policy app:NAME, as in shop:app.")
@click.option("--wait", help="The goal: how long a task may wait, such as 5s.")
@click.option("--min", "floor", type=int, help="The fewest workers.")
@click.option("--max", "ceiling", type=int, help="The most workers.")
@click.option("--start-delay", help="How long a worker takes to start, such as 50ms or 30s.")
@click.option("--rate", type=float, help="Mean tasks a second.")
@click.option("--service", type=float, help="Mean run time in seconds.")
@click.option("--cv2", type=float, help="Squared coefficient of variation of the run time.")
@click.option("--distribution", default="lognormal", show_default=True, type=click.Choice(list(DISTRIBUTIONS)))
@click.option("--seconds", type=int, help="How long the run is; a scenario is stretched to it.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--chart", type=click.Path(path_type=Path, dir_okay=False), help="Draw to this .svg or .html file.")
@json_option
def simulate(
    load: str | None,
    store_url: str | None,
    since: str,
    queue: str | None,
    policies: Sequence[str],
    target: str | None,
    wait: str | None,
    floor: int | None,
    ceiling: int | None,
    start_delay: str | None,
    rate: float | None,
    service: float | None,
    cv2: float | None,
    distribution: str,
    seconds: int | None,
    seed: int,
    chart: Path | None,
    as_json: bool,
) -> None:
    """Play a load in simulated time, with the very code that sizes real pools.

    LOAD is a scenario (steady, step, ramp, sawtooth, on-off, heavy-tail, tight, long, service-shift, slow-downstream,
    error-storm, chaos, bursts, cron-herd) or a CSV file. Without it, the history of a store is played.
    """
    given = click.get_current_context().get_parameter_source("store_url")
    if load is not None and given is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"LOAD={load} and --store are two loads; give one of them")
    overrides = LoadOverrides(rate=rate, service=service, cv2=cv2, distribution=distribution, seconds=seconds)
    own = _own_deciders([name for name in policies if name.startswith(PREFIX)], target)
    others = [name for name in policies if name not in own]
    names = [*own, *(find_policies(others) if others else ())]
    found = _load(load, store_url, since, queue, overrides, seed)
    wanted = adjust_load(found, wait=wait, floor=floor, ceiling=ceiling, start_delay=start_delay)
    results = list(_played(names, own, wanted, kept=chart is not None or as_json))
    if chart is not None:
        write_chart(chart, results)
    if as_json:
        # Second by second is what the chart is for.
        print_json([msgspec.structs.replace(result, timeline=Timeline()) for result in results])
    else:
        _print(results, wanted)


def _load(
    name: str | None, store_url: str | None, since: str, queue: str | None, overrides: LoadOverrides, seed: int
) -> Load:
    """What is to be played: what was named, else the history of the store."""
    if name is not None:
        return find_load(name, seed=seed, overrides=overrides)
    if store_url is None and not Path(DEFAULT_URL.removeprefix("sqlite:///")).exists():
        known = ", ".join(normalize_name(scenario) for scenario in SCENARIOS)
        raise click.UsageError(f"name a load ({known}), a CSV file, or a store by --store URL")
    overrides.check_none("a store's history")
    store = opened(store_url)
    return read_history(store, now=SystemClock().now(), since=duration(since, "since"), queue=queue)


def _own_deciders(names: Sequence[str], target: str | None) -> dict[str, AppDecider]:
    """Import the app and return the deciders of these names; this process is no node, so that its code may run here."""
    if not names:
        return {}
    if target is None:
        raise click.UsageError(f"--policy {names[0]} is a function of an app: say which by --app, as in --app shop:app")
    from windlass.client.app_store import forbid_stores
    from windlass.worker.worker_parent import load_app

    forbid_stores("the app is imported to simulate its deciders: they cannot use its store")
    known = load_app(target).deciders
    unknown = [name for name in names if name.removeprefix(PREFIX) not in known]
    if unknown:
        raise click.UsageError(f"{target} has no decider {unknown[0]}; it has {', '.join(known) or 'none'}")
    return {name: known[name.removeprefix(PREFIX)] for name in names}


def _played(
    names: Sequence[str], own: Mapping[str, AppDecider], load: Load, *, kept: bool
) -> Iterator[SimulationResult]:
    """One result for each policy; on a terminal it is told which one is at work."""
    limit = compute_bound(load)
    live = sys.stderr.isatty() and len(names) > 1
    for number, name in enumerate(names, 1):
        if live:
            click.echo(f"\r\033[K{name} ({number} of {len(names)})", err=True, nl=False)
        if name in own:
            yield play_app_decider(name, own[name], load, limit, keep_timeline=kept)
        else:
            yield play(name, load, limit, keep_timeline=kept)
    if live:
        click.echo("\r\033[K", err=True, nl=False)


def _print(results: Sequence[SimulationResult], load: Load) -> None:
    """The table for people, the best first."""
    click.echo(
        f"{load.name}: {len(load.arrivals):,} tasks in {load.length:,} s, goal {load.wait:g} s, {load.floor} to "
        f"{load.ceiling} workers that start in {load.delay:g} s"
    )
    click.echo("Late is the share of tasks over the goal; cost is relative to one who knows every task ahead.\n")
    print_table(HEADS, [_row(result) for result in sorted(results, key=lambda result: result.score)])


def _row(result: SimulationResult) -> tuple[str, ...]:
    return (
        f"{result.policy} {result.setting}".strip(),
        f"{result.late:.2%}",
        f"{result.wait_p99:.1f} s",
        f"{result.cost:.2f}",
        f"{result.resizes_per_hour:.1f}",
        format_seconds(result.recovery),
        f"{result.score:.2f}",
    )

"""`windlass pool simulate`: simulate how policies size a pool under a load."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec.structs import replace

from windlass.cli.options import (
    app_option,
    choose,
    clock,
    json_options,
    max_option,
    min_option,
    open_chosen,
    queue_option,
    seconds_option,
    since_option,
    url_option,
    wait_goal_option,
)
from windlass.cli.output import print_json, print_table
from windlass.core.times import duration
from windlass.custom_decider import PREFIX
from windlass.simulation.bound import compute_bound
from windlass.simulation.charts import format_seconds, write_chart
from windlass.simulation.load import DISTRIBUTIONS, Load, LoadOverrides
from windlass.simulation.load_sources import adjust_load, find_load, normalize_name, read_history
from windlass.simulation.policies import AppDecider, find_policies, play, play_app_decider
from windlass.simulation.run import SimulationResult, Timeline
from windlass.simulation.scenarios import SCENARIOS
from windlass.store_choice import DEFAULT_URL
from windlass.wire.commands import Simulation

HEADS = ("policy", "late", "p99 wait", "cost", "resizes/h", "recovery", "score")


@click.command()
@click.argument("load", required=False, metavar="[LOAD|FILE.csv]")
@url_option
@since_option("1h")
@queue_option
@click.option(
    "--policy", "policies", multiple=True, default=("slo",), show_default=True, help="Policy, or all. Repeatable."
)
@app_option()
@wait_goal_option
@min_option
@max_option()
@click.option("--start-delay", metavar="TIME", help="Time that a worker takes to start, such as 50ms or 30s.")
@click.option("--rate", type=float, help="Mean number of tasks per second.")
@click.option("--service", type=float, help="Mean run time in seconds.")
@click.option("--cv2", type=float, help="Squared coefficient of variation of the run time.")
@click.option(
    "--distribution",
    default="lognormal",
    show_default=True,
    type=click.Choice(list(DISTRIBUTIONS)),
    help="Distribution of the run time.",
)
@seconds_option(int)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@click.option(
    "--chart", type=click.Path(path_type=Path, dir_okay=False), help="Write a chart to this .svg or .html file."
)
@json_options
def simulate(
    load: str | None,
    store_url: str | None,
    since: str,
    queue: str | None,
    policies: Sequence[str],
    app: str | None,
    wait_goal: str | None,
    min_workers: int | None,
    max_workers: int | None,
    start_delay: str | None,
    rate: float | None,
    service: float | None,
    cv2: float | None,
    distribution: str,
    seconds: int | None,
    seed: int,
    chart: Path | None,
    form: str | None,
) -> None:
    """Simulate how policies size a pool under a load.

    LOAD is a scenario (steady, step, ramp, sawtooth, on-off, heavy-tail, tight, long, service-shift, slow-downstream,
    error-storm, chaos, bursts, cron-herd) or a CSV file. Without it, the history of the store since --since is used.
    The simulation runs the code that sizes real pools.
    """
    given = click.get_current_context().get_parameter_source("store_url")
    if load is not None and given is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"Use either LOAD={load} or --store, not both.")
    overrides = LoadOverrides(rate=rate, service=service, cv2=cv2, distribution=distribution, seconds=seconds)
    own = _own_deciders([name for name in policies if name.startswith(PREFIX)], app)
    others = [name for name in policies if name not in own]
    names = [*own, *(find_policies(others) if others else ())]
    found = _load(load, store_url, since, queue, overrides, seed)
    wanted = adjust_load(found, wait=wait_goal, min=min_workers, max=max_workers, start_delay=start_delay)
    results = list(_simulate(names, own, wanted, kept=chart is not None or form is not None))
    if chart is not None:
        write_chart(chart, results)
    # The timeline second by second is only for the chart.
    shorter = [replace(result, timeline=Timeline()) for result in results]
    shape = Simulation(load=wanted.name, tasks=len(wanted.arrivals), seconds=wanted.length, results=shorter)
    if not print_json(form, shape, shorter):
        _print(results, wanted)


def _load(
    name: str | None, store_url: str | None, since: str, queue: str | None, overrides: LoadOverrides, seed: int
) -> Load:
    """Return the named load, or the history of the store."""
    if name is not None:
        return find_load(name, seed=seed, overrides=overrides)
    if choose(store_url).is_default and not Path(DEFAULT_URL.removeprefix("sqlite:///")).exists():
        known = ", ".join(normalize_name(scenario) for scenario in SCENARIOS)
        raise click.UsageError(f"No load. Use a scenario ({known}), a CSV file, or --store URL.")
    overrides.check_none("a store's history")
    return read_history(open_chosen(store_url), now=clock().now(), since=duration(since, "since"), queue=queue)


def _own_deciders(names: Sequence[str], target: str | None) -> dict[str, AppDecider]:
    """Import the app and return its deciders of these names. The app must not use its store here."""
    if not names:
        return {}
    if target is None:
        raise click.UsageError(f"--policy {names[0]} is a decider of an app. Name the app, as in --app shop:app.")
    from windlass.client.app_store import forbid_stores
    from windlass.worker.worker_parent import load_app

    forbid_stores("the app is imported only to simulate its deciders; they cannot use its store")
    known = load_app(target).deciders
    unknown = [name for name in names if name.removeprefix(PREFIX) not in known]
    if unknown:
        raise click.UsageError(f"{target} has no decider {unknown[0]}. Its deciders: {', '.join(known) or 'none'}.")
    return {name: known[name.removeprefix(PREFIX)] for name in names}


def _simulate(
    names: Sequence[str], own: Mapping[str, AppDecider], load: Load, *, kept: bool
) -> Iterator[SimulationResult]:
    """Yield a result for each policy. On a terminal, show which policy runs."""
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
    """Print a table of the results, best first."""
    click.echo(
        f"{load.name}: {len(load.arrivals):,} tasks in {load.length:,} s, wait goal {load.wait:g} s, {load.min} to "
        f"{load.max} workers that start in {load.delay:g} s"
    )
    click.echo(
        "Late: share of tasks above the wait goal. Cost: relative to a policy that knows all tasks in advance.\n"
    )
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

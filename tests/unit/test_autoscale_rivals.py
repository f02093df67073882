"""The models of other autoscalers follow their documentation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace

from benchmarks.autoscale import __main__ as bench
from benchmarks.autoscale.rivals import (
    ALL,
    POLICIES,
    RIVALS,
    aimd,
    aws,
    celery,
    dask,
    hpa_queue,
    hpa_use,
    judoscale,
    keda,
    knative,
    little,
    pid,
    threshold,
)
from windlass.autoscale.observe import Observation
from windlass.simulation.bound import compute_bound
from windlass.simulation.load import Load
from windlass.simulation.policies import static
from windlass.simulation.run import Start

LOAD = Load(name="none", length=1000, wait=10, delay=5, arrivals=[])
ZERO = Load(name="none", length=1000, wait=10, delay=5, arrivals=[], min=0)


def seen(size: int, *, queued: int = 0, busy: float = 0.0, arrivals: int = 0, oldest: float = 0.0) -> Observation:
    return Observation(
        queued=queued, busy=busy, running=int(busy), ready=size, arrivals=arrivals, oldest=oldest, start_delay=5.0
    )


def sizes(start: Start, queue: Sequence[tuple[int, float]], load: Load = LOAD, oldest: float = 0.0) -> list[int]:
    """Return the size after each second of (queued, busy), if every worker is ready at once."""
    size, policy = start(load)
    found: list[int] = []
    for now, (queued, busy) in enumerate(queue, 1):
        size = policy(now, seen(size, queued=queued, busy=busy, oldest=oldest if queued else 0.0))
        found.append(size)
    return found


def test_the_hpa_grows_by_at_most_four_or_a_doubling_in_fifteen_seconds() -> None:
    found = sizes(partial(hpa_queue, 1), [(100, 0)] * 60)

    assert [found[14], found[29], found[44], found[59]] == [5, 10, 20, 40]
    assert found[13] == 1


def test_the_hpa_tolerates_a_tenth() -> None:
    _, policy = hpa_queue(1, LOAD)
    for now in range(1, 61):
        policy(now, seen(20, queued=20))

    assert policy(75, seen(20, queued=22)) == 20
    assert policy(90, seen(20, queued=23)) == 23


def test_the_hpa_shrinks_to_the_highest_recommendation_of_five_minutes() -> None:
    found = sizes(partial(hpa_queue, 1), [(40, 0)] * 60 + [(10, 0)] * 330)

    assert found[60 + 285] == 40
    assert found[-1] == 10


def test_the_hpa_counts_starting_pods_as_idle_when_it_would_grow() -> None:
    _, policy = hpa_use(0.8, replace(LOAD, min=8))
    busy = Observation(ready=4, starting=4, busy=4.0, running=4)
    for now in range(1, 15):
        policy(now, busy)

    assert policy(15, busy) == 8


def test_keda_counts_running_tasks_and_scales_to_zero_after_five_minutes() -> None:
    found = sizes(partial(keda, 5), [(10, 10)] * 15 + [(0, 0)] * 400, ZERO)

    assert found[14] == 4
    assert found[14 + 300] > 0
    assert found[-1] == 0


def test_knative_does_not_shrink_in_panic() -> None:
    found = sizes(partial(knative, 1.0), [(0, 1)] * 60 + [(50, 1)] * 6 + [(0, 1)] * 120)

    peak = max(found)
    assert peak > 20
    assert found[60 + 6 + 50] == peak
    assert found[-1] < peak / 2


def test_aws_waits_for_three_periods_out_and_fifteen_in() -> None:
    found = sizes(partial(aws, 60, 1.0), [(100, 1)] * 240 + [(0, 0)] * 60 * 20)

    assert found[178] == 1
    assert found[179] == 4
    assert found[240 + 60 * 14 - 1] == max(found)
    assert found[-1] < max(found)


def test_celery_grows_at_once_and_shrinks_after_its_keepalive() -> None:
    found = sizes(partial(celery, 30), [(3, 1)] + [(0, 1)] * 40)

    assert found[0] == 4
    assert found[30] == 4
    assert found[31] == 1


def test_celery_counts_only_reserved_tasks() -> None:
    assert sizes(partial(celery, 30), [(1000, 1)]) == [5]


def test_dask_shrinks_after_three_lower_recommendations() -> None:
    found = sizes(partial(dask, 5), [(50, 0)] + [(0, 0)] * 3)

    assert found == [10, 10, 10, 1]


def test_judoscale_adds_one_while_queue_time_is_above_its_mark_and_sheds_one_after_ten_minutes() -> None:
    found = sizes(partial(judoscale, 0.2, 0.05, 1, 600), [(5, 1)] * 25 + [(0, 0)] * 700, oldest=5.0)

    assert (found[0], found[9], found[10], found[24]) == (2, 2, 3, 4)
    assert found[25 + 590] == 4
    assert found[-1] == 3


def test_thresholds_act_after_a_delay() -> None:
    found = sizes(partial(threshold, 0.8, 0.5), [(0, 1.0)] * 5 + [(0, 0)] * 60)

    assert found[3] == 1
    assert found[4] == 3
    assert found[-1] == 3 - 1


def test_additive_increase_and_multiplicative_decrease() -> None:
    found = sizes(partial(aimd, 4), [(9, 1)] * 10 + [(0, 0)] * 60, oldest=5.0)

    assert found[9] == 9
    assert found[-1] == 7


def test_pid_stays_where_the_load_is_right() -> None:
    _, policy = pid(0.4, LOAD)
    size = 1
    for now in range(1, 600):
        size = policy(now, seen(size, busy=min(size, 16.0), queued=0 if size >= 16 else 20))

    assert 18 <= size <= 22


def test_little_divides_the_load_by_the_target_utilization() -> None:
    _, policy = little(0.7, LOAD)
    size = 1
    for now in range(1, 61):
        size = policy(now, seen(size, arrivals=7))

    assert size == 10


def test_a_fixed_size_stays_within_the_bounds() -> None:
    assert static(500, LOAD)[0] == 200


def test_all_means_the_default_every_rival_and_both_limits() -> None:
    rivals = "static hpa-queue hpa-use keda knative aws-backlog celery dask judoscale threshold aimd pid little"

    assert set(RIVALS) == set(rivals.split())
    assert set(ALL) == {"slo", *RIVALS, "hindsight", "clairvoyant"}
    assert set(ALL) <= set(POLICIES)


def test_a_rival_is_reported_in_its_best_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(name="steady", length=300, wait=5, delay=5, arrivals=[(at / 20, 1.0) for at in range(6000)])
    monkeypatch.setattr(bench, "playing", [(load, compute_bound(load))])

    [result] = bench.play_all("static", keep_timeline=False, processes=1)

    assert (result.policy, result.setting) == ("static", "25")

"""The rules of the field, as policies: each with its published defaults and some sensible settings.

Every factory takes a load (its user would know the goal and about how long a task runs) and gives a first size and a
policy. The reported number of a rival is that of its best setting, which favours it. The first setting of each is the
published default where there is one. `clairvoyant` and the best fixed size by hindsight are limits, not rivals: they
know what comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from windlass.simulation.policy import Policy, Start
from windlass.simulation.rivals.clusters import aws, hpa_queue, hpa_use, keda, knative
from windlass.simulation.rivals.limits import clairvoyant
from windlass.simulation.rivals.queues import celery, dask, judoscale
from windlass.simulation.rivals.textbook import aimd, little, pid, static, threshold


def vary(family: Callable[..., tuple[int, Policy]], *settings: tuple[float, ...]) -> Mapping[str, Start]:
    """One rival in several settings."""
    return {" ".join(f"{value:g}" for value in each): partial(family, *each) for each in settings}


RIVALS: Mapping[str, Mapping[str, Start]] = {
    "hpa-queue": vary(hpa_queue, (1,), (2,), (5,), (10,)),
    "hpa-use": vary(hpa_use, (0.8,), (0.7,), (0.6,), (0.5,)),
    "keda": vary(keda, (5,), (2,), (1,), (0.8,), (0.6,)),
    "knative": vary(knative, (0.7,), (0.5,), (0.85,), (2,)),
    "aws-backlog": vary(aws, (60, 1), (20, 0.3), (10, 0.1), (5, 0.1), (5, 0.03)),
    "celery": vary(celery, (30,), (60,), (120,), (300,)),
    "dask": vary(dask, (5,), (0.7,), (1,), (15,)),
    "judoscale": vary(
        judoscale, (0.2, 0.05, 1, 600), (0.1, 0.02, 0, 120), (0.2, 0.05, 0, 120), (0.4, 0.1, 0, 120), (0.6, 0.2, 0, 120)
    ),
    "threshold": vary(threshold, (0.8, 0.5), (0.9, 0.6), (0.95, 0.7), (0.7, 0.4)),
    "aimd": vary(aimd, (1,), (2,), (4,), (8,)),
    "pid": vary(pid, (0.2,), (0.4,), (0.7,), (1.0,)),
    "little": vary(little, (0.7,), (0.6,), (0.8,), (0.9,)),
    "static": vary(static, (10,), (25,), (50,), (100,)),
}
LIMITS: Mapping[str, Mapping[str, Start]] = {"clairvoyant": {"": clairvoyant}}

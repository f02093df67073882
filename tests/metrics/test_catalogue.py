from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from windlass.metrics.calls import StoreCalls
from windlass.metrics.catalogue import CATALOGUE, series, table
from windlass.metrics.node import NodeMetrics
from windlass.metrics.refused_submits import RefusedSubmitMetrics

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_the_reference_lists_every_metric() -> None:
    assert table() in PAGE.read_text(), (
        "the table in docs/reference/metrics.md is to be windlass.metrics.catalogue.table()"
    )


def test_the_registries_match_the_catalogue() -> None:
    registry = CollectorRegistry()
    NodeMetrics(registry)
    StoreCalls(registry)
    registry.register(RefusedSubmitMetrics())
    kept = {metric.name + ("_total" if metric.type == "counter" else "") for metric in registry.collect()}

    assert kept == {family.name for place, families in CATALOGUE.items() if place != "server" for family in families}


def test_names_follow_the_conventions_of_prometheus() -> None:
    families = [family for found in CATALOGUE.values() for family in found]

    assert len({family.name for family in families}) == len(families)
    assert len(series()) > len(families)
    for family in families:
        assert family.name.startswith("windlass_")
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert family.name.endswith("_seconds") or family.kind != "histogram", family.name
        assert family.help.endswith("."), family.name

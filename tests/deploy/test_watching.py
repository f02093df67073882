"""The dashboard and the alert rules use only existing metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.running import documents, judged, made
from windlass.deploy.dashboard import HEIGHT, ROWS, WIDTH
from windlass.metrics.catalogue import CATALOGUE
from windlass.metrics.pools import ALERTS

FAMILIES = {name: family for families in CATALOGUE.values() for family in families for name in family.series}
BOARD: dict[str, Any] = json.loads(made("grafana"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
[RULES] = documents(made("alerts"))
EVERY_RULE = [rule for group in RULES["groups"] for rule in group["rules"]]

EXPRESSIONS = [
    *(
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in PANELS
        for target in panel["targets"]
    ),
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in EVERY_RULE),
]


def labels_of(expression: str) -> Iterator[str]:
    """Return every label that an expression uses."""
    for names in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expression):
        yield from (name.strip() for name in names.split(","))
    for matchers in re.findall(r"\{([^}]*)\}", expression):
        yield from re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_use_existing_metrics_and_labels(expression: str) -> None:
    names = set(re.findall(r"\bwindlass_\w+", expression))

    assert names
    assert names <= FAMILIES.keys()
    known = {label for name in names for label in FAMILIES[name].labels} | {"le"}
    assert set(labels_of(expression)) <= known
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_are_used_with_a_rate_and_gauges_without(expression: str) -> None:
    for name, within in re.findall(
        r"(?:(?:rate|increase|delta)\()?(windlass_\w+)(?:\{[^}]*\})?(\[[^]]*\])?", expression
    ):
        counted = FAMILIES[name].kind != "gauge"
        assert bool(within) == counted or f"delta({name}" in expression, name


def test_the_dashboard_has_a_row_per_question_and_no_overlapping_panels() -> None:
    rows = [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"]
    covered = [
        (x, y)
        for panel in BOARD["panels"]
        for grid in [panel["gridPos"]]
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]

    assert rows == [
        "Is it healthy?",
        "What is waiting?",
        "Who goes next?",
        "Why this many workers?",
        "What fails?",
    ]
    assert len(PANELS) == sum(len(panels) for panels in ROWS.values())
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert len(covered) == len(set(covered))
    assert max(x for x, _ in covered) < WIDTH
    assert all(panel["gridPos"]["h"] == HEIGHT for panel in PANELS)


def test_the_dashboard_uses_the_selected_data_source() -> None:
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) - {"__rate_interval"}

    assert used == set(variables)
    for panel in PANELS:
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_legends_use_labels_of_the_expression() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            kept = set(labels_of(target["expr"]))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]


def test_every_rule_is_complete() -> None:
    for rule in EVERY_RULE:
        assert re.fullmatch(r"Windlass[A-Za-z]+", rule["alert"])
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"].endswith(".")
        labels = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert labels <= set(labels_of(rule["expr"])), rule["alert"]
    assert len({rule["alert"] for rule in EVERY_RULE}) == len(EVERY_RULE)


def test_every_alert_of_the_controller_has_a_rule() -> None:
    named = {
        name
        for rule in EVERY_RULE
        for names in re.findall(r'windlass_pool_alert\{name=~?"([^"]+)"\}', rule["expr"])
        for name in names.split("|")
    }

    assert named == set(ALERTS)


def test_the_burn_rate_is_measured_over_five_minutes_and_an_hour() -> None:
    [rule] = [rule for rule in EVERY_RULE if rule["alert"] == "WindlassTasksLate"]

    assert re.findall(r"\[(\w+)\]", rule["expr"]) == ["5m", "5m", "1h", "1h"]
    assert rule["expr"].count("14.4 *") == 2


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(made("alerts"))

    judged("promtool", "check", "rules", str(tmp_path / "rules.yaml"))

"""Templates become files.

A name in a template is `@{name}`, because `$` and double braces mean something in most of the files themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from string import Template

from windlass.deploy.dashboard import dashboard
from windlass.deploy.plan import Plan

KUBERNETES = ("server.yaml", "worker.yaml")
_HEADER = "# Written by `windlass deploy {}`. Yours to change.\n"

# In a chart, names and numbers come from its values; the release says in which namespace.
_CHART: Mapping[str, str] = {
    "app": "{{ .Values.app }}",
    "image": "{{ .Values.image }}",
    "pool": "{{ .Values.pool }}",
    "most": "{{ .Values.max }}",
    "nodes": "{{ .Values.nodes }}",
    "namespace": "{{ .Release.Namespace }}",
    "drain": "{{ .Values.drain }}",
    "grace": "{{ .Values.grace }}",
}


class _AtTemplate(Template):
    delimiter = "@"


def rendered(name: str, values: Mapping[str, str]) -> str:
    """One file, with its names filled in; a name that the template has and nobody knows is a bug."""
    return _AtTemplate(files("windlass.deploy").joinpath("files", name).read_text()).substitute(values)


def grafana(_: Plan) -> dict[str, str]:
    """A dashboard."""
    return {"windlass.json": dashboard()}


def alerts(plan: Plan) -> dict[str, str]:
    """Rules for Prometheus."""
    return {"windlass-alerts.yaml": _HEADER.format("alerts") + rendered("alerts.yaml", plan.values)}


def systemd(plan: Plan, role: str = "worker") -> dict[str, str]:
    """A unit: for a node, or for the HTTP server."""
    # A percent sign means something to systemd.
    url = "" if plan.store is None else f"Environment=WINDLASS_URL={plan.store.replace('%', '%%')}\n"
    name = f"windlass-{role}.service"
    return {name: _HEADER.format(f"systemd {role}") + rendered(name, {**plan.values, "url": url})}


def compose(plan: Plan) -> dict[str, str]:
    """PostgreSQL, a server and nodes on one machine."""
    return {"compose.yaml": _HEADER.format("compose") + rendered("compose.yaml", plan.values)}


def keda(plan: Plan, *, plain: bool = False) -> dict[str, str]:
    """Deployments in Kubernetes, and what says how many pods: KEDA, or a plain HorizontalPodAutoscaler."""
    names = (*KUBERNETES, "hpa.yaml" if plain else "keda.yaml")
    return {f"windlass-{name}": _HEADER.format("keda") + rendered(name, plan.values) for name in names}


def helm(plan: Plan) -> dict[str, str]:
    """The same as a chart."""
    templates = {f"templates/{name}": rendered(name, _CHART) for name in (*KUBERNETES, "keda.yaml")}
    return {
        "Chart.yaml": _HEADER.format("helm") + rendered("chart/Chart.yaml", plan.values),
        "values.yaml": _HEADER.format("helm") + rendered("chart/values.yaml", plan.values),
        **templates,
    }

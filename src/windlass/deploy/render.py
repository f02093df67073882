"""Renders the templates.

A placeholder is `@{name}`, because `$` and double braces have a meaning in most of the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from string import Template

from windlass.deploy.dashboard import dashboard
from windlass.deploy.plan import Plan
from windlass.deploy.rights import api_rights, grants, node_rights, read_rights

KUBERNETES = ("server.yaml", "worker.yaml")
_HEADER = "# Written by `windlass deploy {}`. Edit as needed.\n"

# In a chart, the values come from `values.yaml` and the namespace from the release.
_CHART: Mapping[str, str] = {
    "app": "{{ .Values.app }}",
    "image": "{{ .Values.image }}",
    "pool": "{{ .Values.pool }}",
    "max": "{{ .Values.max }}",
    "nodes": "{{ .Values.nodes }}",
    "namespace": "{{ .Release.Namespace }}",
    "drain": "{{ .Values.drain }}",
    "grace": "{{ .Values.grace }}",
}


class _AtTemplate(Template):
    delimiter = "@"


def render_file(name: str, values: Mapping[str, str]) -> str:
    """Render one template. A placeholder without a value is a bug and raises `KeyError`."""
    return _AtTemplate(files("windlass.deploy").joinpath("files", name).read_text()).substitute(values)


def grafana(_: Plan) -> dict[str, str]:
    """Return the Grafana dashboard."""
    return {"windlass.json": dashboard()}


def alerts(plan: Plan) -> dict[str, str]:
    """Return the Prometheus alert rules."""
    return {"windlass-alerts.yaml": _HEADER.format("alerts") + render_file("alerts.yaml", plan.values)}


def systemd(plan: Plan, role: str = "worker") -> dict[str, str]:
    """Return a systemd unit for a node or the HTTP server."""
    # systemd expands percent signs.
    url = "" if plan.store is None else f"Environment=WINDLASS_URL={plan.store.replace('%', '%%')}\n"
    name = f"windlass-{role}.service"
    return {name: _HEADER.format(f"systemd {role}") + render_file(name, {**plan.values, "url": url})}


def compose(plan: Plan) -> dict[str, str]:
    """Return a Compose file with PostgreSQL, a server and nodes on one machine."""
    return {"compose.yaml": _HEADER.format("compose") + render_file("compose.yaml", plan.values)}


def role(plan: Plan) -> dict[str, str]:
    """Return SQL that creates a PostgreSQL database and a role that is not a superuser."""
    return {"windlass-role.sql": render_file("role.sql", plan.values)}


def roles(plan: Plan) -> dict[str, str]:
    """Return SQL that creates PostgreSQL roles with fewer rights than the owner: for nodes, the API and readers."""
    given = {
        "node_grants": grants(node_rights(), f"{plan.prefix}_node"),
        "api_grants": grants(api_rights(), f"{plan.prefix}_api"),
        "read_grants": grants(read_rights(), f"{plan.prefix}_read"),
    }
    return {"windlass-roles.sql": render_file("roles.sql", {**plan.values, **given})}


def keda(plan: Plan, *, plain: bool = False) -> dict[str, str]:
    """Return Kubernetes deployments and their autoscaler: KEDA, or a plain HorizontalPodAutoscaler."""
    names = (*KUBERNETES, "hpa.yaml" if plain else "keda.yaml")
    return {f"windlass-{name}": _HEADER.format("keda") + render_file(name, plan.values) for name in names}


def helm(plan: Plan) -> dict[str, str]:
    """Return a Helm chart with KEDA."""
    templates = {f"templates/{name}": render_file(name, _CHART) for name in (*KUBERNETES, "keda.yaml")}
    return {
        "Chart.yaml": _HEADER.format("helm") + render_file("chart/Chart.yaml", plan.values),
        "values.yaml": _HEADER.format("helm") + render_file("chart/values.yaml", plan.values),
        **templates,
    }

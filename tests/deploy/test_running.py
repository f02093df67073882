"""Units and manifests: their commands exist, and a drain has enough time."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.deploy.running import documents, judged, made
from windlass.cli.main import main
from windlass.cli.server import server
from windlass.cli.worker import worker
from windlass.metrics.listener import parse_address
from windlass.server.routes.table import TABLE
from windlass.server.settings import ServerSettings
from windlass.wire.pools import DesiredShape

CLUSTER = (
    "--app",
    "post:app",
    "--image",
    "post:2",
    "--pool",
    "mail",
    "--max",
    "6",
    "--nodes",
    "4",
    "--namespace",
    "prod",
)


def called(words: list[str]) -> dict[str, Any]:
    """Parse a command line of ours, which must be valid."""
    program, command, *rest = words
    assert program.endswith("windlass")
    return {"worker": worker, "server": server}[command].make_context(command, rest).params


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def a_server(params: dict[str, Any]) -> ServerSettings:
    """Return the settings of a command line; they must be valid for a server with tokens."""
    settings = ServerSettings(host=params["host"], hosts=tuple(params["hosts"]), behind_proxy=params["behind_proxy"])
    settings.check(has_tokens=True)
    return settings


# systemd


def unit(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_a_unit_drains_before_it_is_killed() -> None:
    text = made("systemd", "--app", "post:app", "--pool", "mail", "--max", "6", "--drain-timeout", "2m")
    found = unit(text)
    params = called(found["ExecStart"].split())

    assert (params["app"], params["pools"], params["drain_timeout"]) == ("post:app", ("mail=1-6",), "120s")
    assert seconds(found["TimeoutStopSec"]) > 120
    assert found["KillMode"] == "mixed", "only the node is options to stop; its workers are its own to end"
    assert found["NoNewPrivileges"] == "yes"


def test_a_unit_of_the_server_listens_on_localhost_only() -> None:
    params = called(unit(made("systemd", "server"))["ExecStart"].split())

    assert a_server(params).is_local


def test_a_store_is_written_into_a_unit_as_systemd_reads_it() -> None:
    found = unit(made("systemd", "--store", "postgresql://me@db/a%20b"))

    assert found["Environment"] == "WINDLASS_URL=postgresql://me@db/a%%20b"


@pytest.mark.parametrize("role", ["worker", "server"])
def test_systemd_accepts_the_units(role: str, tmp_path: Path) -> None:
    path = tmp_path / f"windlass-{role}.service"
    path.write_text(made("systemd", role, "--bin", sys.executable, "--folder", "/tmp"))

    output = judged("systemd-analyze", "verify", "--man=no", str(path))

    assert "Unknown" not in output, "systemd does not fail over what it does not know"


@pytest.mark.parametrize("role", ["worker", "server"])
def test_a_unit_has_few_rights_and_limits(role: str) -> None:
    found = unit(made("systemd", role))

    assert found["User"] == "windlass"
    assert (found["CapabilityBoundingSet"], found["NoNewPrivileges"], found["ProtectSystem"]) == ("", "yes", "strict")
    assert found["ProtectProc"] == "invisible"
    assert {"MemoryMax", "LimitNOFILE", "TasksMax"} <= found.keys()
    assert found["LimitCORE"] == "0"


# compose


def test_containers_run_without_root_on_a_read_only_file_system_within_limits() -> None:
    [found] = documents(made("compose"))

    for name in ("server", "worker"):
        service = found["services"][name]
        assert service["user"] == "10001:10001"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert {"mem_limit", "pids_limit", "ulimits"} <= service.keys()
    assert "NOSUPERUSER" in found["configs"]["role"]["content"]
    assert "POSTGRES_USER" not in found["services"]["postgres"]["environment"], "that one would be a superuser"


def test_a_compose_file_has_a_store_a_server_and_nodes_that_drain() -> None:
    [found] = documents(made("compose", "--app", "post:app", "--image", "post:2", "--max", "6"))
    services = found["services"]
    params = called(services["worker"]["command"])

    assert set(services) == {"postgres", "server", "worker"}
    assert (params["app"], params["pools"]) == ("post:app", ("default=1-6",))
    assert seconds(services["worker"]["stop_grace_period"]) > seconds(params["drain_timeout"])
    assert services["server"]["image"] == services["worker"]["image"] == "post:2"
    assert services["server"]["ports"] == ["127.0.0.1:7878:7878"], "nobody elsewhere"
    assert a_server(called(services["server"]["command"])).accepts_host("server")
    assert "WINDLASS_URL" in services["worker"]["environment"]
    assert found["volumes"].keys() == {"data"}


def test_docker_accepts_the_compose_file(tmp_path: Path) -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], check=False, capture_output=True).returncode
    ):
        pytest.skip("docker compose is not installed; the checks by hand stand alone")
    (tmp_path / "compose.yaml").write_text(made("compose"))
    (tmp_path / ".env").write_text("WINDLASS_DB_PASSWORD=secret\n")

    judged("docker", "compose", "-f", str(tmp_path / "compose.yaml"), "config", "--quiet")


# Kubernetes


@pytest.fixture(params=["--hpa", ""])
def manifests(request: pytest.FixtureRequest) -> dict[tuple[str, str], dict[str, Any]]:
    """Return every object by kind and name."""
    objects = documents(made("keda", *CLUSTER, *filter(None, [request.param])))
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_every_object_is_in_its_namespace_and_deployments_select_their_own_pods(manifests: dict[Any, Any]) -> None:
    for (kind, _), each in manifests.items():
        assert re.fullmatch(r"(v1|[a-z.]+/v\d\w*)", each["apiVersion"])
        assert each["metadata"]["namespace"] == "prod"
        if kind == "Deployment":
            assert each["spec"]["selector"]["matchLabels"] == each["spec"]["template"]["metadata"]["labels"]
    service = manifests["Service", "windlass-server"]["spec"]
    pods = manifests["Deployment", "windlass-server"]["spec"]["template"]
    assert service["selector"] == pods["metadata"]["labels"]
    assert service["ports"][0]["targetPort"] == pods["spec"]["containers"][0]["ports"][0]["name"]


def test_a_pod_of_workers_has_enough_time_to_drain(manifests: dict[Any, Any]) -> None:
    spec = manifests["Deployment", "windlass-mail"]["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    params = called(container["command"])

    assert "replicas" not in spec, "the autoscaler's number must not be reset by every deploy"
    assert (params["app"], params["pools"], container["image"]) == ("post:app", ("mail=1-6",), "post:2")
    assert pod["terminationGracePeriodSeconds"] > seconds(params["drain_timeout"])
    assert "lifecycle" not in container, "a preStop that signals would make the kubelet's SIGTERM the one that hurries"
    assert params["health"].endswith(f":{container['ports'][0]['containerPort']}")


def test_the_number_of_pods_follows_the_desired_size_without_smoothing(manifests: dict[Any, Any]) -> None:
    scaler = manifests.get(("HorizontalPodAutoscaler", "windlass-mail"))
    if scaler is not None:
        spec, most = scaler["spec"], scaler["spec"]["maxReplicas"]
        [metric] = spec["metrics"]
        target, behaviour = metric["external"]["target"]["averageValue"], spec["behavior"]
        assert metric["external"]["metric"]["name"] == "windlass_desired_slots"
    else:
        spec = manifests["ScaledObject", "windlass-mail"]["spec"]
        [trigger] = spec["triggers"]
        most, target = spec["maxReplicaCount"], trigger["metadata"]["targetValue"]
        behaviour = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]

    assert spec["scaleTargetRef"]["name"] == "windlass-mail"
    assert (most, target) == (4, "6"), "as many pods as output, and a pod runs as many tasks as it has workers"
    assert behaviour["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] <= 60


def test_keda_queries_an_existing_route_of_the_server() -> None:
    objects = {each["kind"]: each for each in documents(made("keda", *CLUSTER)) if each["kind"] != "Deployment"}
    servers = [each for each in documents(made("keda", *CLUSTER)) if each["metadata"]["name"] == "windlass-server"]
    [trigger] = objects["ScaledObject"]["spec"]["triggers"]
    asked = re.fullmatch(r"http://([^:/]+):(\d+)(/.*)", trigger["metadata"]["url"])
    assert asked is not None
    route = asked[3].replace("/mail/", "/{name}/")

    assert [each.method for each in TABLE if each.path == route] == ["GET"]
    assert trigger["metadata"]["valueLocation"] in DesiredShape.__struct_fields__
    assert trigger["authenticationRef"]["name"] == objects["TriggerAuthentication"]["metadata"]["name"]
    assert asked[2] == str(objects["Service"]["spec"]["ports"][0]["port"])
    [command] = [
        each["spec"]["template"]["spec"]["containers"][0]["command"] for each in servers if each["kind"] == "Deployment"
    ]
    assert a_server(called(command)).accepts_host(asked[1])


def test_a_chart_with_its_values_equals_the_manifests(tmp_path: Path) -> None:
    made("helm", *CLUSTER, "-o", str(tmp_path / "chart"))
    values = yaml.safe_load((tmp_path / "chart" / "values.yaml").read_text())
    chart = yaml.safe_load((tmp_path / "chart" / "Chart.yaml").read_text())

    def filled(text: str) -> str:
        text = text.replace("{{ .Release.Namespace }}", "prod")
        return re.sub(r"\{\{ \.Values\.(\w+) \}\}", lambda found: str(values[found[1]]), text)

    templates = sorted((tmp_path / "chart" / "templates").iterdir())
    found = [each for path in templates for each in documents(filled(path.read_text()))]
    assert (chart["apiVersion"], chart["name"]) == ("v2", "windlass")
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    by_name = dict(zip(names, found, strict=True))
    assert by_name == {(each["kind"], each["metadata"]["name"]): each for each in documents(made("keda", *CLUSTER))}


def test_helm_accepts_the_chart(tmp_path: Path) -> None:
    made("helm", "-o", str(tmp_path / "chart"))

    judged("helm", "lint", str(tmp_path / "chart"))


def test_pods_run_without_root_on_a_read_only_file_system_within_limits(manifests: dict[Any, Any]) -> None:
    for (kind, _), each in manifests.items():
        if kind != "Deployment":
            continue
        pod = each["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] != 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()


# Probes


def test_nodes_are_probed_at_their_health_paths() -> None:
    [pod] = [
        each["spec"]["template"]["spec"]["containers"][0]
        for each in documents(made("keda", *CLUSTER))
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "windlass-mail"
    ]
    [ready, alive] = [pod[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")]
    [port] = pod["ports"]

    assert (ready["path"], alive["path"]) == ("/readyz", "/healthz")
    assert ready["port"] == alive["port"] == port["name"]
    assert parse_address(called(pod["command"])["health"]) == ("0.0.0.0", port["containerPort"])


def test_a_compose_node_is_checked_at_its_health_path() -> None:
    [found] = documents(made("compose"))
    worker = found["services"]["worker"]
    _, port = parse_address(called(worker["command"])["health"])

    assert f"http://127.0.0.1:{port}/readyz" in worker["healthcheck"]["test"][-1]


def test_a_unit_of_a_node_serves_health_on_localhost_only() -> None:
    params = called(unit(made("systemd"))["ExecStart"].split())

    assert parse_address(params["health"])[0] == "127.0.0.1"


# Refusals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["keda", "--app", "shop"], "app='shop' is invalid, use a value such as shop:app"),
        (["keda", "--app", 'shop:app"\n- x'], "app="),
        (["keda", "--image", "a b"], "image='a b' is invalid"),
        (["keda", "--pool", "Mail"], "pool='Mail' is invalid"),
        (["keda", "--namespace", "a_b"], "namespace='a_b' is invalid"),
        (["keda", "--max", "0"], "max=0 is out of range"),
        (["keda", "--nodes", "0"], "nodes=0 is out of range"),
        (["systemd", "--drain-timeout", "0s"], "drain=0:00:00 is out of range"),
        (["systemd", "--bin", "windlass"], "command='windlass' is invalid"),
        (["systemd", "--store", "postgresql://me:hunter2@db/x"], "store contains a password"),
        (["systemd", "--store", "sqlite:///a\nExecStartPre=/bin/x"], "store="),
        (["role", "--role", "a; DROP"], "role='a; DROP' is invalid"),
        (["role", "--database", "a'b"], "database="),
        (["helm"], "A chart is a folder"),
    ],
)
def test_invalid_values_are_refused(words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["deploy", *words])

    assert result.exit_code == 2
    assert message in result.output
    assert "hunter2" not in result.output
    assert result.stdout == ""


def test_existing_files_are_not_overwritten_without_force(tmp_path: Path) -> None:
    words = ["deploy", "alerts", "-o", str(tmp_path)]
    (tmp_path / "windlass-alerts.yaml").write_text("mine")

    refused = CliRunner().invoke(main, words)

    assert refused.exit_code == 2
    assert "windlass-alerts.yaml already exists" in refused.output
    assert (tmp_path / "windlass-alerts.yaml").read_text() == "mine"
    assert CliRunner().invoke(main, [*words, "--force"]).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["windlass-alerts.yaml"]

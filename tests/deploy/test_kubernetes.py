"""The manifests: names, flags and metrics are the real ones, and what a pod is told to run does what it should."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from rota.core.times import SECOND
from rota.settings import Settings
from rota.store.migrate import LATEST
from tests.deploy.words import DEPLOY, LAST_STEPS, VARIABLES, is_told, labels_of, metrics_in, parsed
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.shell import Shell, environment
from tests.support.stores import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = DEPLOY / "kubernetes"
BIN = Path(sys.executable).parent
PORT = "8356"


def manifests() -> list[dict[str, Any]]:
    """Every object of every file."""
    return [each for file in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def manifest(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in manifests() if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def templates() -> list[dict[str, Any]]:
    """The pods that are made, with their labels."""
    found = []
    for each in manifests():
        if each["kind"] in ("Deployment", "Job"):
            found.append(each["spec"]["template"])
        elif each["kind"] == "CronJob":
            found.append(each["spec"]["jobTemplate"]["spec"]["template"])
    return found


def containers() -> list[dict[str, Any]]:
    return [
        each for pod in templates() for kind in ("initContainers", "containers") for each in pod["spec"].get(kind, [])
    ]


def container(kind: str, name: str) -> dict[str, Any]:
    (found,) = manifest(kind, name)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def in_pod(command: list[str], crew: Shell | Crew, port: str = PORT) -> int:
    """The exit code of a probe or hook, with rota and Python on the path as in the image."""
    words = [word.replace(PORT, port) for word in command]
    env = environment(**crew.env)
    env["PATH"] = f"{BIN}:{env['PATH']}"
    return subprocess.run(words, cwd=crew.folder, env=env, capture_output=True, check=False, timeout=60).returncode


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A pod that reaches an empty PostgreSQL database."""
    shell = Shell(tmp_path, ROTA_DB=url_of("postgres", tmp_path), XDG_RUNTIME_DIR=str(tmp_path))
    yield shell
    shell.end()


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    crew = Crew(tmp_path, ROTA_DB=url_of("postgres", tmp_path), ROTA_RESTART_BACKOFF="50ms")
    yield crew
    crew.end()


def test_every_container_calls_a_command_that_exists() -> None:
    called = {each["name"]: parsed(each["args"])[0] for each in containers()}
    assert called == {
        "init": "init",
        "migrate": "migrate",
        "orchestrator": "orchestrator start",
        "api": "serve",
        "prune": "prune",
    }
    program, seconds, rota, *rest = container("Deployment", "rota-orchestrator")["lifecycle"]["preStop"]["exec"][
        "command"
    ]
    assert (program, seconds.isdigit(), rota) == ("timeout", True, "rota")
    assert parsed(rest)[1]["graceful"]


def test_every_variable_is_a_setting_and_every_secret_has_its_key() -> None:
    secret = manifest("Secret", "rota-database")["stringData"]
    for each in containers():
        names = [variable["name"] for variable in each["env"]]
        assert {name for name in names if name.startswith("ROTA_")} <= VARIABLES
        for variable in each["env"]:
            source = variable.get("valueFrom", {}).get("secretKeyRef")
            assert source is None or (source["name"] == "rota-database" and source["key"] in secret)
            for used in re.findall(r"\$\((\w+)\)", variable.get("value", "")):
                assert used in names[: names.index(variable["name"])], "one that comes later is not filled in"


def test_no_pod_has_more_rights_than_it_needs() -> None:
    user = re.search(r"^USER (\d+):", (DEPLOY / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    for pod in templates():
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["runAsUser"] == int(user[1])
    for each in containers():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert [mount["mountPath"] for mount in each["volumeMounts"]] == ["/tmp"], "where a host's files are"


def test_what_is_selected_exists() -> None:
    labels = [pod["metadata"]["labels"] for pod in templates()]
    for kind, name in (("Deployment", "rota-orchestrator"), ("Deployment", "rota-api")):
        assert manifest(kind, name)["spec"]["selector"]["matchLabels"] in labels
    assert manifest("PodDisruptionBudget", "rota-orchestrator")["spec"]["selector"]["matchLabels"] in labels
    service = manifest("Service", "rota-api")
    assert service["spec"]["selector"] in labels
    monitor = manifest("ServiceMonitor", "rota")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "rota", "the job that deploy/alerts.yml knows"
    ports = {port["name"] for port in container("Deployment", "rota-api")["ports"]}
    assert {service["spec"]["ports"][0]["targetPort"], monitor["endpoints"][0]["port"]} <= ports
    manifest("Deployment", manifest("ScaledObject", "rota-orchestrator")["spec"]["scaleTargetRef"]["name"])
    (listed,) = [each["resources"] for each in manifests() if each["kind"] == "Kustomization"]
    assert all((FOLDER / file).is_file() for file in listed)


def test_a_pod_has_time_to_drain_and_then_to_stop() -> None:
    spec = manifest("Deployment", "rota-orchestrator")["spec"]["template"]["spec"]
    drain = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    stop = Settings().shutdown_timeout / SECOND + LAST_STEPS
    assert spec["terminationGracePeriodSeconds"] > drain + stop


def test_the_scaler_asks_for_metrics_that_are_told(tmp_path: Path) -> None:
    (trigger,) = manifest("ScaledObject", "rota-orchestrator")["spec"]["triggers"]
    query, pool = trigger["metadata"]["query"], parsed(container("Deployment", "rota-orchestrator")["args"])[1]["pool"]
    for metric, labels in metrics_in(query).items():
        assert is_told(metric) and labels <= labels_of(metric), metric
    assert set(re.findall(r'queue="(\w+)"', query)) == {queue for queue, _ in pool}  # type: ignore[attr-defined]

    # Two APIs tell the same: four jobs run, ten wait, and those of a paused queue do not count.
    series = [
        {"series": f'{name}{{instance="{api}",queue="tag"{more}}}', "values": values}
        for api in ("a", "b")
        for name, more, values in (
            ("rota_jobs", ',status="active"', "4 4"),
            ("rota_jobs", ',status="ready"', "10 10"),
            ("rota_jobs", ',status="done"', "99 99"),
            ("rota_queue_paused", "", "0 1"),
        )
    ]
    asked = [
        {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
        for at, value in (("0m", 14), ("1m", 4))
    ]
    file = tmp_path / "query.yml"
    file.write_text(yaml.safe_dump({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}))
    told = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_job_makes_the_schema_and_may_run_again(shell: Shell) -> None:
    pod = manifest("Job", "rota-migrate")["spec"]["template"]["spec"]
    for _ in range(2):
        for each in (*pod["initContainers"], *pod["containers"]):
            shell.say(*each["args"])
    assert shell.ask("migrate")["schema"] == LATEST


def test_the_api_answers_its_probes_its_service_and_prometheus(shell: Shell) -> None:
    api = container("Deployment", "rota-api")
    given = {variable["name"]: variable["value"] for variable in api["env"] if "value" in variable}
    hosts = given["ROTA_HTTP_HOSTS"].replace("$(POD_IP)", "10.1.2.3").replace("$(NAMESPACE)", "default")
    serving = shell.exporting(ROTA_HTTP_HOSTS=hosts, ROTA_HTTP_PORT="0", PYTHONUNBUFFERED="1")
    probes = [api[name]["exec"]["command"] for name in ("livenessProbe", "readinessProbe")]
    assert [re.findall(r"/\w+z\b", command[-1]) for command in probes] == [["/healthz"], ["/readyz"]]
    shell.say("init")
    assert "rota token create" in serving.refuse(*api["args"], code=6)

    secret = shell.say("token", "create", "prometheus", "--scope", "read")
    process = serving.start(*api["args"])
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip().rpartition(":")[2]
        for command in probes:
            assert in_pod(command, shell, port) == 0
        token = {"Authorization": f"Bearer {secret}"}
        for host, headers, status in (
            ("rota-api.default.svc:8356", token, 200),
            ("10.1.2.3:8356", token, 200),
            ("10.1.2.3:8356", {}, 401),
            ("elsewhere", token, 421),
        ):
            answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"Host": host, **headers})
            assert answer.status_code == status, (host, answer.text)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert all(in_pod(command, shell, port) != 0 for command in probes)


def test_a_pod_is_ready_once_a_worker_is_up_and_finishes_its_job_before_it_ends(crew: Crew) -> None:
    orchestrator = container("Deployment", "rota-orchestrator")
    probe = orchestrator["readinessProbe"]["exec"]["command"]
    assert in_pod(probe, crew) != 0
    crew.begin(*orchestrator["args"])
    eventually(lambda: in_pod(probe, crew) == 0)
    held = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    env = environment(**crew.env)
    env["PATH"] = f"{BIN}:{env['PATH']}"
    with subprocess.Popen(orchestrator["lifecycle"]["preStop"]["exec"]["command"], cwd=crew.folder, env=env) as hook:
        eventually(lambda: crew.up(1))  # those with nothing in hand have left
        late = crew.add("tag", n=1)
        assert hook.poll() is None, "it waits for the job in hand"
        crew.let_go("a")
        assert hook.wait(60) == 0
    assert crew.wait() == 0
    assert crew.app.jobs.get(held).status == "done"
    assert crew.app.jobs.get(late).status == "ready", "a pod that drains begins nothing"
    assert in_pod(probe, crew) != 0


def test_a_pod_whose_application_cannot_be_imported_is_never_ready(crew: Crew) -> None:
    orchestrator = container("Deployment", "rota-orchestrator")
    (crew.folder / "shop.py").write_text("import nothing_of_this_name\n")
    crew.begin(*orchestrator["args"])
    eventually(lambda: len(crew.deaths()) >= 4)
    assert in_pod(orchestrator["readinessProbe"]["exec"]["command"], crew) != 0
    crew.stop()

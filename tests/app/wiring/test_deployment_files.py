"""The image, the compose file and the Kubernetes files: each by its schema or linter, and each against Redraft itself.

No container is run here.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.app.cli_calls import call
from tests.app.kustomized import kustomized
from tests.app.node import CHECKERS, LIBRARIES, ROOT, installed
from tests.events.rabbit_node import RabbitNode, server_script
from tests.rabbit_users import Rights, documented

from redraft.actors.plans.paths import steps_in
from redraft.app.cli.shared.exit_codes import USAGE
from redraft.app.settings.settings import read_settings
from redraft.app.workflows.sources import read_source
from redraft.events.bus.port import work_queue
from redraft.events.errors import BusError
from redraft.events.messages.plan import ACTOR_ROLES, Role
from redraft.events.rabbit.bus import RabbitBus

KUBERNETES = "1.37"
USERS = ("coordinator", "server", "generator", "critic", "refiner", "publisher", "step")
DEFINITIONS: dict[str, Any] = json.loads((ROOT / "deploy/rabbitmq/definitions.json").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
ROLES: tuple[Role, ...] = ACTOR_ROLES
ALWAYS = tuple(role for role in ROLES if role != "step")
"""The roles that every workflow may need; workers of free steps are there on wish."""


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    """What `kubectl apply --kustomize deploy/steps` would send: deploy/kubernetes, and the workers of free steps."""
    return kustomized("deploy/steps")


@pytest.fixture(scope="module")
def served() -> list[dict[str, Any]]:
    """What `kubectl apply --kustomize deploy/serve` would send."""
    return kustomized("deploy/serve")


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def env(deployment: dict[str, Any]) -> dict[str, Any]:
    [container] = pod(deployment)["containers"]
    return {each["name"]: each for each in container["env"]}


def test_compose_fits_the_compose_specification() -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "docker-compose.yml",
    ]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert said.returncode == 0, said.stdout


def test_compose_holds_no_password() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    named = re.findall(r"\$\{(\w*PASSWORD)([^}]*)\}", text)
    assert {name for name, _ in named} == {f"REDRAFT_{user.upper()}_PASSWORD" for user in ("store", *USERS)}
    assert all(rest.startswith(":?") for _, rest in named)
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            assert "PASS" not in name or value.startswith("${"), name
            assert "://" not in value or re.search(r"://\w+:\$\{\w+:\?[^}]*\}@", value), name
    assert not any(user["password_hash"] for user in DEFINITIONS["users"])


def test_each_part_has_a_user_of_its_own_with_the_rights_of_the_guide() -> None:
    composed = json.loads(COMPOSE["configs"]["users"]["content"].replace("$$", "$"))
    rights = {
        each["user"]: Rights(each["configure"], each["write"], each["read"]) for each in DEFINITIONS["permissions"]
    }
    assert {each["user"]: Rights(*list(each.values())[2:]) for each in composed["permissions"]} == {
        user: rights[user] for user in USERS
    }
    told = documented()
    assert {user: told[user] for user in ("coordinator", "server", "operator", "subscriber")}.items() <= rights.items()
    for role in ROLES:
        of_all = Rights(*(part.replace(r"critic\.judge(\.notes-.*)?", r"critic\..*") for part in told["critic"]))
        assert rights[role] == Rights(
            *(part.replace(r"critic\.judge", r"critic\..*").replace("critic", role) for part in of_all)
        )
        assert COMPOSE["services"][role]["environment"]["REDRAFT_BUS"].startswith(
            f"amqp://{role}:${{REDRAFT_{role.upper()}_"
        )
    stands = COMPOSE["services"]["coordinator"]["environment"]["REDRAFT_USERS"]
    assert read_settings(users=json.loads(stands)).users == {
        **{role: (role,) for role in ROLES},
        "server": ("operator", *ROLES),
    }


@pytest.mark.check
def test_rabbitmq_makes_the_users_of_the_compose_file(tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    content = COMPOSE["configs"]["users"]["content"].replace("$$", "$")
    users.write_text(re.sub(r"\$\{REDRAFT_(\w+)_PASSWORD[^}]*\}", r"secret-of-\1", content))
    settings = COMPOSE["configs"]["rabbitmq"]["content"].replace("/etc/rabbitmq/users.json", str(users))
    node = RabbitNode(tmp_path, server_script(), settings)
    try:
        node.start()
        for user in USERS:
            asyncio.run(enters(node.url.replace("guest:guest", f"{user}:secret-of-{user.upper()}")))
        with pytest.raises(BusError, match="the user or the password is refused"):
            asyncio.run(enters(node.url))
    finally:
        node.close()


@pytest.mark.check
def test_nobody_enters_by_the_definitions_for_a_cluster_before_a_password_is_given(tmp_path: Path) -> None:
    node = RabbitNode(tmp_path, server_script(), f"load_definitions = {ROOT}/deploy/rabbitmq/definitions.json\n")
    try:
        node.start()
        for user in (each["name"] for each in DEFINITIONS["users"]):
            for password in ("", user):
                with pytest.raises(BusError, match="the user or the password is refused"):
                    asyncio.run(enters(node.url.replace("guest:guest", f"{user}:{password}")))
    finally:
        node.close()


async def enters(url: str) -> None:
    async with RabbitBus(url):
        """A user that is not there, or has no right to the virtual host, does not get in."""


def test_compose_has_a_service_for_each_role_and_workers_know_no_database() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"rabbitmq", "postgres", "coordinator", "serve", *ROLES}
    assert set(services["coordinator"]["environment"]) == {"REDRAFT_STORE", "REDRAFT_BUS", "REDRAFT_USERS"}
    for role in ROLES:
        assert services[role]["command"] == ["worker", "--role", role]
        assert set(services[role]["environment"]) == {"REDRAFT_BUS", "REDRAFT_WORKER_MODULE"}
        assert services[role]["depends_on"]["rabbitmq"] == {"condition": "service_healthy"}
        assert not {"container_name", "ports"} & set(services[role]), "either of them would forbid --scale"
        assert services[role].get("profiles", []) == ([] if role in ALWAYS else ["steps"])


def test_compose_serves_http_on_wish_and_to_this_machine_alone() -> None:
    serve = COMPOSE["services"]["serve"]
    assert serve["profiles"] == ["serve"]
    assert serve["ports"] == ["127.0.0.1:8420:8420"]
    assert serve["build"]["args"] == {"EXTRAS": "[server]"}
    assert set(serve["environment"]) == {"REDRAFT_STORE", "REDRAFT_BUS"}
    assert serve["environment"]["REDRAFT_STORE"] == COMPOSE["services"]["coordinator"]["environment"]["REDRAFT_STORE"]
    assert serve["environment"]["REDRAFT_BUS"].startswith("amqp://server:${REDRAFT_SERVER_")


@pytest.mark.check
def test_kubernetes_serves_http_to_the_proxy_alone(objects: list[dict[str, Any]], served: list[dict[str, Any]]) -> None:
    known = {(each["kind"], each["metadata"]["name"]) for each in objects}
    added = [each for each in served if (each["kind"], each["metadata"]["name"]) not in known]
    for each in added:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
        assert each["metadata"]["namespace"] == "redraft"
    kinds = {each["kind"]: each for each in added}
    assert set(kinds) == {"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"}
    deployment, service, policy = kinds["Deployment"], kinds["Service"], kinds["NetworkPolicy"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    [container] = pod(deployment)["containers"]
    [port] = container["ports"]
    [opened] = policy["spec"]["ingress"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert [each["port"] for each in opened["ports"]] == [port["containerPort"]]
    assert opened["from"][0]["podSelector"] == {"matchLabels": {"redraft-proxy": "true"}}
    policies = list(of_kind(served, "NetworkPolicy").values())
    for_it = [each for each in policies if each["spec"]["podSelector"]["matchLabels"].items() <= labels.items()]
    assert set().union(*map(ports, for_it)) == {53, 5671, 5672, 5432}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": port["name"]}
    assert container["args"][:2] == ["serve", "article.py"]
    assert int(container["args"][container["args"].index("--port") + 1]) == port["containerPort"]
    assert read_settings(http=json.loads(env(deployment)["REDRAFT_HTTP"]["value"])).http.hosts
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod(deployment)["securityContext"]["runAsNonRoot"]


def test_kubernetes_signs_people_in_by_a_provider_that_the_server_can_reach(served: list[dict[str, Any]]) -> None:
    known = {(each["kind"], each["metadata"]["name"]) for each in served}
    objects = kustomized("deploy/oidc")
    [policy] = [each for each in objects if (each["kind"], each["metadata"]["name"]) not in known]
    deployment = of_kind(objects, "Deployment")["serve"]
    assert (
        policy["spec"]["podSelector"]["matchLabels"].items()
        <= deployment["spec"]["template"]["metadata"]["labels"].items()
    )
    given = env(deployment)
    chosen = read_settings(oidc=json.loads(given["REDRAFT_OIDC"]["value"])).oidc
    assert chosen is not None
    assert chosen.callback == "https://redraft.example.com/oidc/callback"
    assert "valueFrom" in given["REDRAFT_OIDC_CLIENT_SECRET"]


def test_compose_keeps_what_has_to_outlive_a_container() -> None:
    kept = {
        mount.partition(":")[0] for name in ("rabbitmq", "postgres") for mount in COMPOSE["services"][name]["volumes"]
    }
    assert kept == set(COMPOSE["volumes"])
    assert all("healthcheck" in COMPOSE["services"][name] for name in ("rabbitmq", "postgres"))


@pytest.mark.check
def test_the_dockerfile_passes_a_linter(tmp_path: Path) -> None:
    checker = installed(CHECKERS, tmp_path)
    command = ["npx", "--no", "dockerfile-utils", "lint", ROOT / "Dockerfile"]
    said = subprocess.run(command, cwd=checker, capture_output=True, text=True, timeout=170, check=False)
    assert said.returncode == 0, said.stdout


def test_the_image_has_all_that_it_is_built_from() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert "pyproject.toml" in sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(each == source or each.startswith(f"{source}/") for each in allowed), f"{source} is ignored"


def test_the_image_runs_as_nobody_special() -> None:
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    [user] = re.findall(r"^USER (\d+):\d+$", last, re.MULTILINE)
    assert int(user) > 0


def probed(command: list[str], health: Path) -> int:
    """The exit code of a probe's command, for a health file that lies elsewhere."""
    program = [word.replace("/tmp/health", str(health)) for word in command]
    return subprocess.run(program, capture_output=True, timeout=170, check=False).returncode


def made_old(file: Path) -> None:
    os.utime(file, (time.time() - 300,) * 2)


def test_the_image_is_healthy_while_its_health_file_is_fresh_and_kills_what_hangs(tmp_path: Path) -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    assert "REDRAFT_HEALTH_FILE=/tmp/health\n" in text
    [check] = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", text, re.MULTILINE)
    health, alive = tmp_path / "health", tmp_path / "health.alive"
    assert probed(json.loads(check), health) != 0
    with subprocess.Popen(["sleep", "600"]) as process:
        health.touch()
        alive.write_text(f"{process.pid}\n")
        assert probed(json.loads(check), health) == 0
        made_old(health)
        assert probed(json.loads(check), health) != 0
        assert process.poll() is None, "it lives, and only its servers are away"
        made_old(alive)
        probed(json.loads(check), health)
        assert process.wait(30) == -signal.SIGKILL


def test_kubernetes_restarts_what_hangs_and_not_what_waits_for_servers(
    objects: list[dict[str, Any]], tmp_path: Path
) -> None:
    for deployment in of_kind(objects, "Deployment").values():
        [container] = pod(deployment)["containers"]
        probe = container["livenessProbe"]
        assert probe.get("terminationGracePeriodSeconds", 600) <= 10, "what hangs does not end by itself"
        command = probe["exec"]["command"]
        health, alive = tmp_path / "health", tmp_path / "health.alive"
        assert probed(command, health) == 0, "it has not begun yet"
        alive.touch()
        assert probed(command, health) == 0
        made_old(alive)
        assert probed(command, health) != 0
        alive.unlink()


def test_kubernetes_takes_every_object(objects: list[dict[str, Any]]) -> None:
    known = [each for each in objects if not each["apiVersion"].startswith("keda.sh/")]
    assert len(known) == len(objects) - len(ROLES) - 1
    for each in known:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)


def keda_says(checker: Path, objects: Sequence[Any]) -> subprocess.CompletedProcess[str]:
    given = json.dumps(objects)
    return subprocess.run(
        ["node", "keda.mjs"], cwd=checker, input=given, capture_output=True, text=True, timeout=170, check=False
    )


@pytest.mark.check
def test_kedas_own_schemas_take_its_objects(objects: list[dict[str, Any]], tmp_path: Path) -> None:
    checker = installed(LIBRARIES, tmp_path)
    theirs = [each for each in objects if each["apiVersion"].startswith("keda.sh/")]
    said = keda_says(checker, theirs)
    assert (said.returncode, said.stdout) == (0, f"{len(ROLES) + 1} objects\n"), said.stderr
    wrong = copy.deepcopy(next(each for each in theirs if each["kind"] == "ScaledObject"))
    del wrong["spec"]["triggers"][0]["type"]
    wrong["spec"]["maxReplicaCount"] = "ten"
    said = keda_says(checker, [wrong])
    assert said.returncode == 1
    assert "type" in said.stderr


def ports(policy: dict[str, Any]) -> set[int]:
    return {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}


def test_kubernetes_lets_pods_reach_what_they_need_and_nobody_reach_them(objects: list[dict[str, Any]]) -> None:
    policies = of_kind(objects, "NetworkPolicy")
    assert any({"Ingress", "Egress"} <= set(each["spec"]["policyTypes"]) for each in policies.values())
    assert not [each for each in policies.values() if "ingress" in each["spec"]]
    for name, deployment in of_kind(objects, "Deployment").items():
        labels = deployment["spec"]["template"]["metadata"]["labels"].items()
        for_it = [p for p in policies.values() if p["spec"]["podSelector"]["matchLabels"].items() <= labels]
        reached = set().union(*map(ports, for_it))
        assert reached == {53, 5671, 5672} | ({5432} if name == "coordinator" else set())


def test_the_documented_policy_for_workers_that_need_the_web_is_one(objects: list[dict[str, Any]]) -> None:
    [text] = re.findall(
        r"```yaml\n(apiVersion: networking.*?)```", (ROOT / "docs/deployment.md").read_text(), re.DOTALL
    )
    policy = yaml.safe_load(text)
    kubernetes_validate.validate(policy, KUBERNETES, strict=True)
    chosen = policy["spec"]["podSelector"]["matchLabels"].items()
    labels = {n: d["spec"]["template"]["metadata"]["labels"] for n, d in of_kind(objects, "Deployment").items()}
    assert [name for name, own in labels.items() if chosen <= own.items()] == ["worker-critic"]
    assert ports(policy) == {443}


def test_kubernetes_has_a_deployment_and_a_scaler_for_each_role(objects: list[dict[str, Any]]) -> None:
    deployments, scalers = of_kind(objects, "Deployment"), of_kind(objects, "ScaledObject")
    assert set(deployments) == {"coordinator", *(f"worker-{role}" for role in ROLES)}
    assert deployments["coordinator"]["spec"]["replicas"] == 2
    files = (f"{ROOT}/examples/article.py:article", f"{ROOT}/examples/strategos_state.py:design")
    actors = {step.role: step.actor for file in reversed(files) for _, step in steps_in(read_source(file).plan.steps)}
    plain = of_kind(kustomized("deploy/kubernetes"), "Deployment")
    assert set(plain) == {"coordinator", *(f"worker-{role}" for role in ALWAYS)}
    for role in ROLES:
        deployment, scaler = deployments[f"worker-{role}"], scalers[f"worker-{role}"]
        assert pod(deployment)["containers"][0]["args"][:3] == ["worker", "--role", role]
        assert "replicas" not in deployment["spec"], "KEDA sets them"
        assert scaler["spec"]["scaleTargetRef"]["name"] == f"worker-{role}"
        [trigger] = scaler["spec"]["triggers"]
        assert trigger["metadata"]["queueName"] == work_queue(role, actors[role])
        assert trigger["authenticationRef"]["name"] in of_kind(objects, "TriggerAuthentication")


def test_kubernetes_finds_the_pods_of_each_deployment_and_no_others(objects: list[dict[str, Any]]) -> None:
    deployments, budgets = of_kind(objects, "Deployment"), of_kind(objects, "PodDisruptionBudget")
    assert set(budgets) == set(deployments)
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in deployments.items()}
    for kind in (deployments, budgets):
        for name, each in kind.items():
            selector = each["spec"]["selector"]["matchLabels"].items()
            assert [found for found, own in labels.items() if selector <= own.items()] == [name]


def test_kubernetes_gets_secrets_from_elsewhere(objects: list[dict[str, Any]]) -> None:
    assert not of_kind(objects, "Secret")
    for name, deployment in of_kind(objects, "Deployment").items():
        given = env(deployment)
        if name == "coordinator":
            stands = json.loads(given.pop("REDRAFT_USERS")["value"])
            assert stands == {
                **{role: [role] for role in ROLES},
                "operator": ["operator"],
                "server": ["operator", *ROLES],
            }
        assert set(given) == ({"REDRAFT_STORE", "REDRAFT_BUS"} if name == "coordinator" else {"REDRAFT_BUS"})
        role = name.removeprefix("worker-")
        secrets = {each: what["valueFrom"]["secretKeyRef"]["name"] for each, what in given.items()}
        assert secrets.pop("REDRAFT_STORE", "redraft-store") == "redraft-store"
        assert secrets == {"REDRAFT_BUS": f"redraft-bus-{role}"}


def test_kubernetes_runs_pods_that_can_do_little(objects: list[dict[str, Any]]) -> None:
    for deployment in of_kind(objects, "Deployment").values():
        assert pod(deployment)["securityContext"]["runAsNonRoot"] is True
        assert pod(deployment)["automountServiceAccountToken"] is False
        [container] = pod(deployment)["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"startupProbe", "readinessProbe"} <= set(container)


def test_redraft_has_every_command_that_the_files_give(objects: list[dict[str, Any]]) -> None:
    composed = [each["command"] for each in COMPOSE["services"].values() if "command" in each]
    deployed = [pod(each)["containers"][0] for each in of_kind(objects, "Deployment").values()]
    probed = [container["readinessProbe"]["exec"]["command"][1:] for container in deployed]
    for command in {tuple(each) for each in [*composed, *(container["args"] for container in deployed), *probed]}:
        options = [word for word in command[1:] if word.startswith("--")]
        said = call(command[0], "--help")
        assert said.code != USAGE, said.err
        assert all(option in said.out for option in options), command

"""The files of `deploy/` against the specifications of Compose and Kubernetes, against each other, and against the code.

Belongs here: the text of the files, and the instance that they configure. Does not: their processes (e2e/test_two_homes). No
image was built by these tests.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import compose_spec
import dagster as dg
import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lakehouse_assets.orchestration.code_servers import CodeServerLauncher
from lakehouse_assets.orchestration.postgres_storage import LakehousePostgresEventLogStorage
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.e2e.servers import postgres_server
from lakehouse_assets_tests.orchestration.test_postgres_storage import variables
from lakehouse_assets_tests.support import PROJECT_ROOT

DEPLOY = PROJECT_ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()]
DAGSTER = ("code", "daemon", "webserver", "streams")
# The oldest and the newest version of Kubernetes whose schemas the files are compared with.
VERSIONS = ("1.27", "1.37")
VARIABLE = re.compile(r"\b(?:LAKEHOUSE|DAGSTER|AWS)_[A-Z_]+\b")


def compose_json(**changes: Any) -> str:
    """The Compose file as Compose reads it: merged, with the defaults of its variables. ``changes``: of the service code."""
    text = re.sub(r"\$\{\w+:[-?]([^}]*)\}", lambda default: default[1], (DEPLOY / "compose.yaml").read_text())
    document = yaml.safe_load(text)
    document["services"]["code"].update(changes)
    return json.dumps(document)


def documents() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        yield from yaml.safe_load_all(path.read_text())


def workloads() -> dict[str, dict[str, Any]]:
    """The pods of the Deployments by name."""
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in documents() if each["kind"] == "Deployment"}


def container(name: str) -> dict[str, Any]:
    (only,) = workloads()[name]["containers"]
    return only


def instruction(name: str) -> list[str]:
    """The arguments of each instruction of this name in the Dockerfile."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE.replace("\\\n", " "), re.MULTILINE)


def test_compose_accepts_its_file():
    compose_spec.PyCompose.from_json(compose_json()).validate()


@pytest.mark.parametrize("change", [{"helthcheck": {}}, {"ports": ["127.0.0.1:x:1"]}, {"stop_grace_period": "1 parsec"}])
def test_compose_refuses_a_mistake(change):
    with pytest.raises(ValueError, match=r"helthcheck|port range|parsec"):
        compose_spec.PyCompose.from_json(compose_json(**change)).validate()


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_each_manifest(version):
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)
    mistake = next(document for document in documents() if document["kind"] == "Deployment")
    mistake["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(mistake, version, strict=True)


def test_kustomize_has_every_manifest_and_file():
    text = (DEPLOY / "kustomization.yaml").read_text()
    listed = re.findall(r"^  (?:# )?- (kubernetes/\S+)$", text, re.MULTILINE)
    assert sorted(listed) == [path.relative_to(DEPLOY).as_posix() for path in MANIFESTS]
    assert set(listed) - set(KUSTOMIZATION["resources"]) == {"kubernetes/spark.yaml", "kubernetes/streams.yaml"}
    generated = {each["name"]: each for each in KUSTOMIZATION["configMapGenerator"]}
    assert all((DEPLOY / name).is_file() for name in generated["lakehouse-dagster"]["files"])
    mounted = {
        volume["configMap"]["name"] for pod in workloads().values() for volume in pod["volumes"] if "configMap" in volume
    }
    assert mounted | {"lakehouse-settings"} == generated.keys()
    used = {each["configMapRef"]["name"] for name in DAGSTER for each in container(name)["envFrom"] if "configMapRef" in each}
    assert used == {"lakehouse-settings"}


def test_the_readme_makes_every_secret():
    secrets = {each["secretRef"]["name"] for name in DAGSTER for each in container(name)["envFrom"] if "secretRef" in each}
    readme = (DEPLOY / "README.md").read_text()
    assert secrets == set(re.findall(r"create secret generic (\S+)", readme))
    for name in ("HOST", "PORT", "USER", "PASSWORD", "DB"):
        assert f"--from-literal=DAGSTER_PG_{name}=" in readme


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_variable_is_one_of_the_docs(path: Path):
    documented = "".join((PROJECT_ROOT / "docs" / f"{name}.md").read_text() for name in ("configuration", "deployment"))
    for name in set(VARIABLE.findall(path.read_text())) - {"LAKEHOUSE_IMAGE", "LAKEHOUSE_SECRET_", "LAKEHOUSE_JDBC_"}:
        general = re.sub(r"^(LAKEHOUSE_(?:SECRET|JDBC))_NAME", r"\1_<NAME>", name)
        assert f"{general}`" in documented or f"{general}=" in documented or f"env: {general}}}" in documented, name


def test_dagster_has_all_that_its_database_needs():
    named = set(re.findall(r"env: (\w+)", (DEPLOY / "dagster.yaml").read_text()))
    for service in DAGSTER:
        assert SERVICES[service]["env_file"] == [".env"]
        in_file = set(re.findall(r"^(\w+)=", (DEPLOY / "example.env").read_text(), re.MULTILINE))
        assert named <= SERVICES[service]["environment"].keys() | in_file


def test_no_password_is_in_a_file():
    assert (DEPLOY / "example.env").read_text().count("DAGSTER_PG_PASSWORD=\n") == 1
    assert SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"] == "${DAGSTER_PG_PASSWORD:?set it in .env}"
    secret = re.compile(r"(?:PASSWORD|SECRET_ACCESS_KEY|SECRET_NAME)[:=] *(\S+)")
    for path in FILES:
        for value in secret.findall(path.read_text()):
            assert value.startswith(("${DAGSTER_PG_PASSWORD:?", '"$', "$")), (path.name, value)
    assert not [word for word in instruction("ENV") + instruction("ARG") if re.search("PASSWORD|SECRET|KEY|TOKEN", word)]
    assert ".env" in (PROJECT_ROOT / ".gitignore").read_text().splitlines()


def test_only_the_web_server_is_published_and_on_loopback():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"webserver": ["127.0.0.1:3000:3000"]}
    assert not [service for service in SERVICES.values() if "network_mode" in service]
    services = [document["spec"] for document in documents() if document["kind"] == "Service"]
    assert {service.get("type", "ClusterIP") for service in services} == {"ClusterIP"}
    assert not {"Ingress", "Gateway", "HTTPRoute"} & {document["kind"] for document in documents()}
    assert not [pod for pod in workloads().values() if pod.get("hostNetwork")]
    ports = [port for name in workloads() for port in container(name).get("ports", ())]
    assert not [port for port in ports if "hostPort" in port]


def test_every_service_is_asked_after_restarted_and_limited():
    for name, service in SERVICES.items():
        assert service["restart"] == "unless-stopped"
        assert name == "streams" or service["healthcheck"]["test"], name
        if name != "postgres":
            assert service["mem_limit"] and service["read_only"] and service["cap_drop"] == ["ALL"]
    for name, pod in workloads().items():
        only = container(name)
        assert name == "streams" or only["livenessProbe"], name
        assert only["resources"]["limits"]["memory"], name
        assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert f"--uid {pod['securityContext']['runAsUser']} " in DOCKERFILE
    assert instruction("USER") == ["lakehouse"]


def test_hosts_that_files_name_are_services():
    (server,) = (each["grpc_server"] for each in yaml.safe_load((DEPLOY / "workspace.yaml").read_text())["load_from"])
    in_kubernetes = {each["metadata"]["name"]: each["spec"] for each in documents() if each["kind"] == "Service"}
    assert server["host"] in SERVICES
    assert [port["port"] for port in in_kubernetes[server["host"]]["ports"]] == [server["port"]]
    driver = re.search(r"^spark\.driver\.host +(\S+)$", (DEPLOY / "spark.conf").read_text(), re.MULTILINE)
    # By a name without an address of its own, the cluster reaches each port of the driver's pod.
    assert driver and in_kubernetes[driver[1]]["clusterIP"] == "None" and driver[1] in SERVICES
    for text in [*SERVICES["spark-worker"]["command"], *container("spark-worker")["args"]]:
        if text.startswith("spark://"):
            assert text == "spark://spark-master:7077"
    assert {"spark-master"} <= SERVICES.keys() & in_kubernetes.keys()


@pytest.mark.parametrize("name", DAGSTER)
def test_pods_and_services_start_the_same(name):
    command, arguments = (" ".join(each) for each in (SERVICES[name]["command"], container(name)["args"]))
    assert arguments.replace("/srv/lakehouse/settings/", "/srv/lakehouse/home/") == command
    if name == "code":
        assert json.loads(instruction("CMD")[0]) == SERVICES[name]["command"]


def test_streams_have_time_to_finish_a_window_and_java_gets_no_signal():
    service, pod = SERVICES["streams"], workloads()["streams"]
    (deployment,) = (each["spec"] for each in documents() if each["metadata"]["name"] == "streams")
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert (service["stop_grace_period"], pod["terminationGracePeriodSeconds"]) == ("2m", 120)
    assert instruction("ENTRYPOINT") == ['["tini", "-g", "--"]']
    assert service["entrypoint"] == container("streams")["command"] == ["tini", "--"]
    # Its driver is itself, and not the service that spark.conf names.
    ours = {each["name"]: each["value"] for each in container("streams")["env"]}
    assert ours == dict.fromkeys(("LAKEHOUSE_SPARK_MASTER", "LAKEHOUSE_SPARK_CONF"), "")
    assert service["environment"] == {**SERVICES["code"]["environment"], **ours}
    environment = {"LAKEHOUSE_PROJECT": str(PROJECT_ROOT), **ours}
    settings = Settings.from_environment(environment)
    assert (settings.spark_master, settings.spark_conf) == ("local[*]", None)


def test_the_image_has_what_it_copies_and_nothing_else():
    allowed = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    copied = [word for copy in instruction("COPY") for word in copy.split()[1:-1]]
    assert sorted(copied) == sorted(allowed)
    assert all((PROJECT_ROOT / source).exists() for source in copied)
    assert (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()[1] == "*"
    assert "--verify-hashes --constraint requirements.lock" in DOCKERFILE


def packages_of_the_image() -> set[str]:
    """The names of all packages that its extras need, as they are installed here."""
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
    extras = re.findall(r"--extra (\w+)", DOCKERFILE)
    assert extras
    wanted = [Requirement(text) for text in project["dependencies"]]
    wanted += [Requirement(text) for extra in extras for text in project["optional-dependencies"][extra]]
    names: set[str | tuple[str, ...]] = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        for text in (metadata.requires(name) or []) if (name, *requirement.extras) not in names else []:
            needed = Requirement(text)
            if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
                wanted.append(needed)
        names |= {name, (name, *requirement.extras)}
    return {name for name in names if isinstance(name, str)}


def test_the_lock_has_every_package_of_the_image():
    """A package that it lacks would be installed in any version, unverified."""
    locked = re.findall(r"^([\w.-]+)==", (PROJECT_ROOT / "requirements.lock").read_text(), re.MULTILINE)
    names = packages_of_the_image()
    assert names >= {"dagster-postgres", "openlineage-python", "py4j", "sqlalchemy"}
    assert names <= {canonicalize_name(name) for name in locked}


def test_the_instance_is_configured_as_on_one_machine():
    ours, container_file = (yaml.safe_load((folder / "dagster.yaml").read_text()) for folder in (PROJECT_ROOT, DEPLOY))
    same = ("concurrency", "run_retries", "sensors", "retention", "python_logs", "telemetry", "nux")
    assert {key: container_file[key] for key in same} == {key: ours[key] for key in same}
    assert {**ours["run_monitoring"], "poll_interval_seconds": 30} == container_file["run_monitoring"]
    assert ours.keys() - container_file.keys() == {"local_artifact_storage"}


def test_dagster_loads_the_instance(tmp_path, monkeypatch):
    (tmp_path / "dagster.yaml").write_text((DEPLOY / "dagster.yaml").read_text())
    with postgres_server() as server:
        for name, value in variables(server).items():
            monkeypatch.setenv(name, value)
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            assert isinstance(instance.run_launcher, CodeServerLauncher)
            assert isinstance(instance.event_log_storage, LakehousePostgresEventLogStorage)
            assert instance.run_monitoring_enabled
            assert instance.run_monitoring_poll_interval_seconds == 30
            assert instance.get_concurrency_config().pool_config.default_pool_limit == 1
            assert instance.get_runs() == []

"""The deployment files: parsed, and held against Dagster's own schema; launchers and storage where their packages are installed."""

import tomllib
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._config import process_config, resolve_to_config_type
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._core.storage.compute_log_manager import ComputeLogManager
from dagster._core.utils import parse_env_var
from dagster._serdes import ConfigurableClassData
from sqlalchemy import create_engine

from pipelines.instance import SETTINGS

LAUNCHERS = {"dagster-docker.yaml": "DockerRunLauncher", "dagster-k8s.yaml": "K8sRunLauncher"}
SERVICES = {"code", "webserver", "daemon"}


@pytest.fixture(scope="module")
def deploy(repository: Path) -> Path:
    return repository / "docs" / "deploy"


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a deployment gives its containers."""
    for name in ("HOST", "USER", "PASSWORD", "DB"):
        monkeypatch.setenv(f"EGO_PG_{name}", "x")


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_instances_keep_to_dagsters_schema(deploy: Path, name: str) -> None:
    settings = read(deploy / name)
    result = process_config(resolve_to_config_type(dagster_instance_config_schema()), settings)
    assert result.success, [error.message for error in result.errors or ()]
    assert settings["run_launcher"]["class"] == LAUNCHERS[name]
    assert settings["telemetry"] == {"enabled": False}
    logs = settings["compute_logs"]
    assert ConfigurableClassData(logs["module"], logs["class"], yaml.safe_dump(logs["config"])).rehydrate(as_type=ComputeLogManager)
    same = ("run_coordinator", "run_retries", "freshness")
    assert {key: settings[key] for key in same} == {key: SETTINGS[key] for key in same}


def test_the_schema_would_say_no(deploy: Path) -> None:
    settings = {**read(deploy / "dagster-docker.yaml"), "run_retrys": {}}
    assert not process_config(resolve_to_config_type(dagster_instance_config_schema()), settings).success


@pytest.mark.parametrize(("name", "package"), [("dagster-docker.yaml", "dagster_docker"), ("dagster-k8s.yaml", "dagster_k8s")])
def test_launchers_take_their_config(deploy: Path, name: str, package: str) -> None:
    module = pytest.importorskip(package, reason=f"{package} is not installed")
    given = read(deploy / name)["run_launcher"]
    launcher = getattr(module, given["class"])
    result = process_config(resolve_to_config_type(launcher.config_type()), given["config"])
    assert result.success, [error.message for error in result.errors or ()]
    assert ConfigurableClassData(given["module"], given["class"], yaml.safe_dump(given["config"]))


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_storage_takes_its_config_and_has_its_driver(deploy: Path, name: str) -> None:
    module = pytest.importorskip("dagster_postgres", reason="dagster_postgres is not installed")
    given = read(deploy / name)["storage"]["postgres"]
    result = process_config(resolve_to_config_type(module.DagsterPostgresStorage.config_type()), given)
    assert result.success, [error.message for error in result.errors or ()]
    url = module.utils.pg_url_from_config(result.value)
    assert create_engine(url).dialect.driver == "psycopg2"


def test_a_run_container_is_given_what_the_daemon_has(deploy: Path) -> None:
    compose, given = read(deploy / "docker-compose.yaml"), read(deploy / "dagster-docker.yaml")["run_launcher"]["config"]
    services = compose["services"]
    for name in SERVICES:  # every process names the launcher's variables; one that is not set stops every run
        assert set(given["env_vars"]) <= set(services[name]["environment"])
        assert None not in services[name]["environment"].values()
    folders = [item for item in services["code"]["volumes"] if item.startswith("/")]
    assert given["container_kwargs"]["volumes"] == folders
    assert given["network"] == compose["networks"]["egodata"]["name"]
    sees_docker = {name for name in SERVICES if "/var/run/docker.sock:/var/run/docker.sock" in services[name]["volumes"]}
    assert sees_docker == {"webserver", "daemon"}


def test_docker_makes_a_container_of_the_settings(deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("dagster_docker", reason="dagster_docker is not installed")
    containers = pytest.importorskip("docker.models.containers", reason="docker is not installed")
    for name, value in read(deploy / "docker-compose.yaml")["services"]["daemon"]["environment"].items():
        monkeypatch.setenv(name, value)
    launcher = module.DockerRunLauncher(**read(deploy / "dagster-docker.yaml")["run_launcher"]["config"])
    context = launcher.get_container_context(dg.DagsterRun(job_name="build_episodes"))
    variables = dict(parse_env_var(name) for name in context.env_vars)
    assert variables["EGO_STORE"] == "/store"
    made = containers._create_container_args(
        {"image": launcher.image, "command": [], "version": "1.50", "environment": variables, "network": context.networks[0], "labels": {}}
        | dict(context.container_kwargs)
    )
    assert made["host_config"]["Binds"] == ["/srv/egodata/store:/store", "/srv/egodata/deliveries:/deliveries:ro"]
    assert made["host_config"]["AutoRemove"] is True


def test_kubernetes_gets_a_job_that_sees_store_and_settings(deploy: Path, tmp_path: Path) -> None:
    module = pytest.importorskip("dagster_k8s", reason="dagster_k8s is not installed")
    job = pytest.importorskip("dagster_k8s.job", reason="dagster_k8s is not installed")
    cluster = {"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}]}
    contexts = {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **cluster, **contexts}))
    given = read(deploy / "dagster-k8s.yaml")["run_launcher"]["config"]
    launcher = module.K8sRunLauncher(**given, load_incluster_config=False, kubeconfig_file=str(tmp_path / "kubeconfig"))
    context = launcher.get_container_context_for_run(dg.DagsterRun(job_name="build_episodes"))
    made = job.construct_dagster_k8s_job(
        context.get_k8s_job_config(None, launcher), ["dagster"], "a-run", user_defined_k8s_config=context.run_k8s_config
    )
    pod = made.spec.template.spec
    (container,) = pod.containers
    assert (context.namespace, pod.service_account_name, container.image) == ("egodata", "egodata", "egodata:latest")
    assert [(mount.name, mount.mount_path) for mount in container.volume_mounts] == [("store", "/store")]
    assert [volume.persistent_volume_claim.claim_name for volume in pod.volumes] == ["egodata-store"]
    assert [source.config_map_ref.name for source in container.env_from if source.config_map_ref] == ["egodata-env"]
    assert [source.secret_ref.name for source in container.env_from if source.secret_ref] == ["egodata-postgres"]
    assert container.resources.limits == {"memory": "16Gi"}


def test_the_image_has_launchers_of_its_dagster(deploy: Path, repository: Path) -> None:
    lines = [line for line in (deploy / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    _, minor, patch = pinned["dagster"].split(".")
    expected = {"dagster": f"1.{minor}.{patch}", "dagster-webserver": f"1.{minor}.{patch}", "dagster-pipes": f"1.{minor}.{patch}"}
    library = f"0.{int(minor) + 16}.{patch}"  # how Dagster numbers its libraries
    assert pinned == {**expected, "dagster-postgres": library, "dagster-docker": library, "dagster-k8s": library}
    wanted = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["dependencies"]
    floor = next(item for item in wanted if item.startswith("dagster>=")).removeprefix("dagster>=").partition(",")[0]
    assert floor == pinned["dagster"]


def test_compose_and_kubernetes_start_the_same_services(deploy: Path) -> None:
    compose = read(deploy / "docker-compose.yaml")["services"]
    documents = [item for item in yaml.safe_load_all((deploy / "kubernetes.yaml").read_text()) if item]
    pods = {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]["containers"][0] for item in documents if item["kind"] == "Deployment"
    }
    assert set(compose) - {"postgres"} == set(pods) == SERVICES
    assert compose["webserver"]["ports"] == ["127.0.0.1:3000:3000"]
    for service in SERVICES:
        here, there = compose[service]["command"], pods[service]["command"]
        assert here[0] == there[0]
        assert pods[service]["image"] == compose[service]["image"] == "egodata:latest"
    (server,) = read(deploy / "workspace.yaml")["load_from"]
    port = str(server["grpc_server"]["port"])
    assert server["grpc_server"]["host"] in compose and port in compose["code"]["command"] and port in pods["code"]["command"]
    launcher = read(deploy / "dagster-k8s.yaml")["run_launcher"]["config"]
    named = {(item["kind"], item["metadata"]["name"]) for item in documents}
    assert {("ServiceAccount", launcher["service_account_name"]), ("ConfigMap", launcher["env_config_maps"][0])} <= named
    assert ("PersistentVolumeClaim", launcher["volumes"][0]["persistentVolumeClaim"]["claimName"]) in named

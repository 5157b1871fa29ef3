"""The deployment files: parsed, and held against Dagster's own schema; launchers and storage where their packages are installed."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._config import process_config, resolve_to_config_type
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._serdes import ConfigurableClassData

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
def test_storage_takes_its_config(deploy: Path, name: str) -> None:
    module = pytest.importorskip("dagster_postgres", reason="dagster_postgres is not installed")
    given = read(deploy / name)["storage"]["postgres"]
    result = process_config(resolve_to_config_type(module.DagsterPostgresStorage.config_type()), given)
    assert result.success, [error.message for error in result.errors or ()]


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

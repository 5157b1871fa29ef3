"""The built wheel works from any folder: commands, shipped configs and the Dagster code location travel in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHIPPED = """
import sys
from pathlib import Path
import egodata, egotrain, pipelines
from egodata.config import config_root, find_config

target = Path(sys.argv[1])
for package in (egodata, egotrain, pipelines):
    assert Path(package.__file__).is_relative_to(target), package.__file__
assert config_root().is_relative_to(target), config_root()
print(find_config("recipes", "human_wrist6d").relative_to(target))
import pipelines.definitions
assert Path(pipelines.definitions.__file__).is_relative_to(target)
print(type(pipelines.definitions.defs).__name__)
"""


@pytest.fixture(scope="module")
def installed(repository, tmp_path_factory) -> Path:
    """Folder that holds what the wheel installs, without dependencies."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in ("egodata", "egotrain", "pipelines", "configs"):
        shutil.copytree(repository / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(repository / name, source / name)
    for words in (
        ["build", "--wheel", "--no-isolation", "--outdir", str(place), str(source)],
        ["pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place / "site"), "--find-links", str(place), "egodata"],
    ):
        result = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=100, check=False)
        assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-2000:]
    return place / "site"


def _run(installed: Path, folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    result = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def test_the_command_runs_from_another_folder(installed, tmp_path):
    assert "Usage: egodata" in _run(installed, tmp_path, str(installed / "bin" / "egodata"), "--help")


def test_configs_and_the_code_location_are_inside(installed, tmp_path):
    config, definitions = _run(installed, tmp_path, "-W", "ignore", "-c", SHIPPED, str(installed)).splitlines()
    assert Path(config) == Path("egodata/_configs/recipes/human_wrist6d.yaml")
    assert definitions == "Definitions"


def test_nothing_but_the_packages_is_installed(installed):
    assert {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")} == {
        "bin",
        "egodata",
        "egotrain",
        "pipelines",
    }

"""Dagster, Hydra and torch in one environment: docs/decisions/001-environment.md says why this is guarded."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("egodata", "pipelines", "egotrain")
MODULES = {
    "scikit-image": "skimage",
    "hydra-core": "hydra",
    "opencv-python-headless": "cv2",
    "projectaria-tools": "projectaria_tools",
    "pylance": "lance",
    "pyyaml": "yaml",
}
PROGRAMS = {"dagster-webserver", "tensorboard"}  # run, or imported by lightning
EXTRAS = ("aria", "hdf5", "scale", "ray", "wandb")  # imported where they are used; a clear error where they are missing

SELECTIONS = """
import hydra, omegaconf, torch
from hydra.core.override_parser.overrides_parser import OverridesParser
import dagster as dg

@dg.asset
def first() -> None: ...

@dg.asset(deps=[first])
def second() -> None: ...

for text in ("second", "+second", 'key:"first" or key:"second"', "*"):
    chosen = dg.AssetSelection.from_string(text).resolve([first, second])
    print(text, *sorted(key.to_user_string() for key in chosen), sep="|")
override = OverridesParser.create().parse_override("trainer.betas=[0.9,{a:2}]")
print(override.key_or_group, override.value(), sep="|")
print(omegaconf.OmegaConf.create({"a": 1, "b": "${a}"}).b)
"""

DEFINITIONS = """
import hydra
import dagster as dg

@dg.asset
def first() -> None: ...

@dg.asset(deps=[first])
def second() -> None: ...

@dg.asset(deps=[second])
def third() -> None: ...

defs = dg.Definitions([first, second, third])
"""


def _run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(words, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100, check=False)


def test_string_selections_work_beside_hydra(tmp_path):
    result = _run([sys.executable, "-W", "ignore", "-c", SELECTIONS], tmp_path)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.splitlines() == [
        "second|second",
        "+second|first|second",
        'key:"first" or key:"second"|first|second',
        "*|first|second",
        "trainer.betas|[0.9, {'a': 2}]",
        "1",
    ]


def test_materialize_with_a_selection_runs_the_chosen_assets(tmp_path):
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    words = [sys.executable, "-m", "dagster", "asset", "materialize", "-f", "definitions.py", "--select", "+second"]
    result = _run(words, tmp_path, DAGSTER_HOME=str(home))
    assert result.returncode == 0, result.stderr[-2000:]
    done = {name for name in ("first", "second", "third") if f"Materialized value {name}" in result.stderr}
    started = {name for name in ("first", "second", "third") if f'Started execution of step "{name}"' in result.stderr}
    assert done | started == {"first", "second"}
    assert "RUN_SUCCESS" in result.stderr


def test_the_environment_is_the_one_that_works():
    """A downgrade of either breaks string selections while `pip check` stays green."""
    assert version("hydra-core").split(".")[:2] >= ["1", "4"]
    assert version("antlr4-python3-runtime").startswith("4.13")


def test_constraints_are_exact_and_name_no_build(repository):
    lines = [line for line in (repository / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert lines and all(line.count("==") == 1 and "+" not in line and "://" not in line for line in lines)
    assert {"torch==2.13.0", "hydra-core==1.4.0rc3", "omegaconf==2.4.1rc1"} <= set(lines)


def test_dependencies_are_those_that_are_imported(repository):
    imported = set()
    for path in (path for package in PACKAGES for path in (repository / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    imported -= {*sys.stdlib_module_names, *PACKAGES}
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    needed = _modules(project["dependencies"])
    optional = _modules([item for extra in EXTRAS for item in project["optional-dependencies"][extra]])
    assert imported - optional == needed


def _modules(requirements: list[str]) -> set[str]:
    names = {re.split(r"[<>=!~\[; ]", item, maxsplit=1)[0].lower() for item in requirements} - PROGRAMS
    return {MODULES.get(name, name.replace("-", "_")) for name in names}

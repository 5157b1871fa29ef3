"""What the tracked files as a whole must keep to: lint, import direction, no traces of a machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("zarr", "lance", "av", "torch", "cv2", "scipy", "pyarrow", "dagster", "lightning", "hydra")
# Written in pieces, so that this file does not contain what it looks for.
MACHINE_PATHS = re.compile(
    "|".join([r"(^|[^A-Za-z0-9_.])/" + "work/", "/ro" + "ot/", r"/home/[a-z]\w*/", "/tmp/" + "plan", r"[A-Z]:\\Users"])
)
HOSTS = re.compile("|".join([r"py" + r"pi\.org", r"python" + r"hosted\.org", r"download\.pytorch" + r"\.org", "artifact" + "ory"]))
SECRETS = re.compile(
    "|".join(["AK" + "IA[0-9A-Z]{16}", "gh" + "p_[A-Za-z0-9]{20}", "-----BEGIN [A-Z ]*PRIV" + "ATE KEY", "hf" + "_[A-Za-z]{30}"])
)


def _tracked(repository: Path) -> list[Path]:
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout, so nothing says which files are tracked")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for name in names if name and (path := repository / name).is_file()]


def _text(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data[:8192] else data.decode(errors="replace")


def _tool(repository: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *words], cwd=repository, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize(
    ("pattern", "what"), [(MACHINE_PATHS, "a path of one machine"), (HOSTS, "a package registry"), (SECRETS, "a credential")]
)
def test_tracked_files_name_no(repository, pattern, what):
    found = [
        f"{path.relative_to(repository)}:{number}: {line.strip()[:100]}"
        for path in _tracked(repository)
        for number, line in enumerate(_text(path).splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == [], what


def test_tracked_files_are_small(repository):
    large = {str(path.relative_to(repository)): size for path in _tracked(repository) if (size := path.stat().st_size) > 1_000_000}
    assert large == {}, "large files do not belong in the repository"


def test_lint(repository):
    """Complexity, docstrings, blind excepts and the rest of the ruff settings in pyproject.toml."""
    result = _tool(repository, "ruff", "check", "--output-format", "concise", ".")
    assert result.returncode == 0, result.stdout[-4000:]


def test_imports_point_one_way(repository):
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:]


@pytest.mark.parametrize("module", ["egodata", "egodata.cli.main", "egodata.episode"])
def test_importing_the_core_is_light(module):
    code = f"import sys, {module}; print(' '.join(sorted({set(HEAVY)!r} & set(sys.modules))))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split() == []


def test_every_command_has_help():
    code = (
        "import click; from egodata.cli.main import COMMANDS, cli\n"
        "for name in COMMANDS: print(cli.get_command(click.Context(cli), name).get_short_help_str() or f'{name} has no help')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr[-1000:]
    assert "has no help" not in result.stdout

"""What every test may use."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def _quiet_dependencies():
    """No dependency reports home, from this process or from one that a test starts."""
    names = ("DAGSTER_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real sample data beside the repository; where it is absent the test skips, or fails where CI=true."""
    folder = REPOSITORY.parent / "shared" / "data"
    if folder.is_dir():
        return folder
    reason = "no real sample data at ../shared/data beside the repository"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{reason}, and CI=true asks for it")
    pytest.skip(reason)

"""On a machine with little address space or shared memory a loader works, or says at once what it needs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from egodata.catalog import freeze
from egodata.catalog.rules import DatasetRule
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

CHILD = Path(__file__).with_name("limits_child.py")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    paths = open_root(folder / "store", create=True)
    settings = EncodeSettings(preset="ultrafast")
    for number in range(4):
        draft = small_draft(folder, frames=60, size=(640, 360), seed=number, episode_id=f"ep{number}", operator=f"op{number}")
        publish_draft(paths, draft, settings=settings)
    build_lance(paths)
    freeze(paths, DatasetRule(name="tiny", version="v1", heads=("train", "seen"), valid_ratio=0.25))
    return paths.root


def run(*words, prefix=()):
    command = [*prefix, sys.executable, CHILD, *words]
    found = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=250, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("format", ["zarr", "lance"])
def test_six_gigabytes_of_address_space_are_enough(store, format):
    answer = run(str(store), format, "4")
    assert answer.startswith("read ") and answer.split()[1] == answer.split()[3]


def test_64_mb_of_shared_memory(store):
    """With a real mount, where this user may make one in a namespace of its own."""
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*mount, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace for this user")
    small = run(str(store), "zarr", "4", prefix=mount)
    assert small.startswith("read ") and small.split()[1] == small.split()[3]
    large = run(str(store), "zarr", "64", prefix=mount)
    assert large.startswith("error loader: 2 workers need ") and "/dev/shm has 67 MB free" in large

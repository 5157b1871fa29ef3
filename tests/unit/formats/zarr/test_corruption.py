"""One changed byte anywhere in an episode: verify finds it, and no reader crashes or returns other numbers without a word."""

import os
import random

import numpy as np
import pytest

from egodata.episode import read_all_numeric
from egodata.errors import EgodataError
from egodata.formats.zarr import ZarrStore, verify_episode, versions as on_disk
from tests.unit.formats.zarr.conftest import ID

TRIALS = int(os.environ.get("EGODATA_CORRUPTIONS", "50"))


def _files(group):
    """Every file with its size, integrity.json included, so that each byte of an episode is as likely as another within its kind."""
    files = [path for path in sorted(group.rglob("*")) if path.is_file()] + [group.parent / on_disk.INTEGRITY]
    return [(path, path.stat().st_size) for path in files if path.stat().st_size]


def _read_everything(paths):
    """Read all that a trainer would; errors of ours are fine, anything else is not."""
    reader = ZarrStore(paths).open(ID)
    found = {}
    uses = {
        "rows": lambda: read_all_numeric(reader),
        "frames": lambda: reader.frames("front_1", [0, 49, 50, 129]),
        "spans": lambda: {key: reader.spans(key) for key in reader.annotation_keys},
        "calibration": lambda: reader.calibration,
        "meta": lambda: reader.meta,
    }
    for name, use in uses.items():
        try:
            found[name] = use()
        except EgodataError:
            found[name] = None
    return found


@pytest.mark.timeout(max(120, TRIALS))
def test_single_byte_corruptions(published):
    paths, _ = published
    group = paths.episode_link(ID).resolve()
    good, files = _read_everything(paths), _files(group)
    rng, refused = random.Random(58), 0
    for trial in range(TRIALS):
        # a third of the trials anywhere by size, a third by file, a third in the small files that describe the rest
        small = [item for item in files if item[0].suffix == ".json"]
        pool = (files, files, small)[trial % 3]
        path, size = rng.choices(pool, [size for _, size in pool])[0] if trial % 3 == 0 else rng.choice(pool)
        at, data = rng.randrange(size), path.read_bytes()
        changed = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        path.write_bytes(changed)
        try:
            what = f"trial {trial}: byte {at} of {path.relative_to(group.parent)}"
            assert verify_episode(paths, ID), f"{what}: verify found nothing"
            found = _read_everything(paths)
            if found["rows"] is None:
                refused += 1
            elif path.suffix != ".json":
                for key, array in found["rows"].items():
                    np.testing.assert_array_equal(array, good["rows"][key], err_msg=f"{what}: other numbers without an error")
        finally:
            path.write_bytes(data)
    assert verify_episode(paths, ID) == []
    assert refused > TRIALS // 20, "the trials hit too few numbers to mean anything"


@pytest.mark.parametrize(
    "name", ["zarr.json", "images.front_1/c/1", "right.obs_ee_pose/c/0/0", "annotations_task/zarr.json", "obs_head_pose_valid/zarr.json"]
)
def test_every_lost_added_and_cut_file_is_found(published, name):
    paths, _ = published
    path = paths.episode_link(ID).resolve() / name
    data = path.read_bytes()
    for kind, change in {"file-missing": path.unlink, "file-changed": lambda: path.write_bytes(data[: len(data) // 2])}.items():
        change()
        assert kind in {finding.code for finding in verify_episode(paths, ID)}, kind
        _read_everything(paths)
        path.write_bytes(data)
    extra = path.with_name("extra")
    extra.write_bytes(b"")
    assert {finding.code for finding in verify_episode(paths, ID)} >= {"file-unlisted"}
    extra.unlink()
    assert verify_episode(paths, ID) == []

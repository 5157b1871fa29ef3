"""SIGKILL at random moments of publishing and attaching: old or new, verified, and nothing to repair by hand."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from egodata.episode import read_all_numeric
from egodata.formats.zarr import ZarrStore, clean_leftovers, publish_draft, verify_episode, versions as on_disk
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

KILLS = int(os.environ.get("EGODATA_KILLS", "20"))
ID = "killed"
CHILD = Path(__file__).with_name("kill_child.py")


class _Victims:
    """Starts a child that writes, and kills it after a while."""

    def __init__(self, paths):
        command = [sys.executable, str(CHILD), str(paths.root), ID]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout.readline() == "ready\n"

    def kill_one(self, *, step, after_s):
        self._start(step, point=-1, after_s=after_s)

    def crash_one(self, *, step, point):
        self._start(step, point=point, after_s=None)

    def _start(self, step, *, point, after_s):
        self.server.stdin.write(f"{step} {point}\n")
        self.server.stdin.flush()
        pid = int(self.server.stdout.readline())
        if after_s is not None:
            time.sleep(after_s)
            os.kill(pid, signal.SIGKILL)
        assert self.server.stdout.readline() == "dead\n"

    def end(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


def _check(paths):
    """The current version is whole, the newest complete versions verify, and the reader's numbers and frames belong together."""
    reader = ZarrStore(paths).open(ID)
    total = reader.meta.total_frames
    assert total in (40, 60)
    assert {len(array) for array in read_all_numeric(reader).values()} == {total}
    assert reader.frames("front_1", [0, total - 1]).shape[0] == 2
    assert verify_episode(paths, ID) == []
    for version in on_disk.list_versions(paths, ID)[-4:]:
        assert on_disk.check_files(version, on_disk.read_integrity(version)) == [], version.folder.name
    return reader.digests.content


@pytest.mark.timeout(max(120, 5 * KILLS))
def test_killed_at_random_moments(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    draft = small_draft(tmp_path, frames=40, episode_id=ID)
    publish_draft(paths, draft, settings=EncodeSettings(frames_per_chunk=25, gop=12, bframes=3))
    rng, interrupted, contents = random.Random(20), 0, set()
    victims = _Victims(paths)
    try:
        for step in range(KILLS):
            victims.kill_one(step=step, after_s=rng.uniform(0.0, 0.5))
            folder = paths.episode_versions(ID)
            left = [path for path in (folder / ".build", paths.zarr / f".{ID}.zarr.link") if path.exists() or path.is_symlink()]
            interrupted += bool(left)
            contents.add(_check(paths))
            assert len(clean_leftovers(paths, ID)) == len(left)
            assert {path.name for path in folder.iterdir()} == {".lock", *(v.folder.name for v in on_disk.list_versions(paths, ID))}
    finally:
        victims.end()
    print(f"{KILLS} kills, {interrupted} inside a build, {len(contents)} contents seen")
    assert interrupted >= KILLS // 5, f"only {interrupted} of {KILLS} kills fell into a build: the test no longer tests"
    assert len(contents) > 1
    final = publish_draft(paths, draft, settings=EncodeSettings(frames_per_chunk=25, gop=12, bframes=3))
    assert _check(paths) == final.content


def test_killed_at_each_step_of_publishing(tmp_path):
    """Three steps publish a version: rename, symlink, replace. Killed before and after each, for a rebuild and for an attach."""
    paths = open_root(tmp_path / "store", create=True)
    settings = EncodeSettings(frames_per_chunk=25, gop=12, bframes=3)
    draft = small_draft(tmp_path, frames=40, episode_id=ID)
    before = publish_draft(paths, draft, settings=settings)
    victims = _Victims(paths)
    try:
        for point in range(12):
            link = os.readlink(paths.episode_link(ID))
            victims.crash_one(step=1, point=point)
            assert _check(paths)
            moved = os.readlink(paths.episode_link(ID)) != link
            assert moved == (point >= 5), f"point {point}: the link moves with the replace and not before"
            clean_leftovers(paths, ID)
            assert publish_draft(paths, draft, settings=settings) == before
            assert _check(paths) == before.content
            for version in on_disk.list_versions(paths, ID)[1:]:
                shutil.rmtree(version.folder)  # so that the next child has to build again
    finally:
        victims.end()

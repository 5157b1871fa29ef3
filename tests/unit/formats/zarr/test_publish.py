"""Versions: published in one step, never lost, never mixed."""

import errno
import json
import os
import resource
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from egodata.annotations import SUBTASK, TASK, Span
from egodata.calibration import Calibration
from egodata.episode import read_all_numeric
from egodata.errors import ConflictError, EpisodeNotFoundError, InputError, SchemaError
from egodata.formats.zarr import (
    ZarrStore,
    attach_annotations,
    attach_calibration,
    clean_leftovers,
    publish_draft,
    verify_episode,
    versions as on_disk,
)
from egodata.testing.drafts import small_draft
from tests.unit.formats.zarr.conftest import ID, SETTINGS


def _versions(paths):
    return [version.folder.name for version in on_disk.list_versions(paths, ID)]


def _inodes(group):
    return {path.relative_to(group).as_posix(): path.stat().st_ino for path in group.rglob("*") if path.is_file()}


def test_the_link_is_relative_and_names_the_content(published):
    paths, digests = published
    assert os.readlink(paths.episode_link(ID)) == f".v/{ID}/{digests.content[:16]}-1/episode.zarr"
    record = json.loads((paths.episode_link(ID).resolve().parent / "integrity.json").read_bytes())
    assert record["content"] == digests.content
    group = paths.episode_link(ID).resolve()
    assert set(record["files"]) == {path.relative_to(group).as_posix() for path in group.rglob("*") if path.is_file()}


def test_a_moved_store_still_opens(published, tmp_path):
    paths, digests = published
    paths.root.rename(tmp_path / "moved")
    assert ZarrStore(type(paths)(tmp_path / "moved")).open(ID).digests == digests


def test_publishing_the_same_again_adds_nothing(published, draft):
    paths, digests = published
    assert publish_draft(paths, draft, settings=SETTINGS) == digests
    assert _versions(paths) == [f"{digests.content[:16]}-1"]


def test_a_damaged_version_is_rebuilt_beside_itself(published, draft):
    paths, digests = published
    (paths.episode_link(ID) / "images.front_1" / "c" / "0").write_bytes(b"gone")
    assert verify_episode(paths, ID)
    assert publish_draft(paths, draft, settings=SETTINGS) == digests
    assert _versions(paths) == [f"{digests.content[:16]}-1", f"{digests.content[:16]}-2"]
    assert verify_episode(paths, ID) == []
    assert ZarrStore(paths).find_version(ID, content=digests.content).number == 2
    assert ZarrStore(paths).open(ID, content=digests.content).frames("front_1", [0]).shape == (1, 48, 64, 3)


def test_a_shorter_rebuild_leaves_no_old_rows(published, tmp_path):
    paths, before = published
    shorter = small_draft(tmp_path, frames=90, episode_id=ID)
    after = publish_draft(paths, shorter, settings=SETTINGS)
    reader = ZarrStore(paths).open(ID)
    assert reader.meta.total_frames == 90
    assert {len(array) for array in read_all_numeric(reader).values()} == {90}
    old = ZarrStore(paths).open(ID, content=before.content)
    assert old.meta.total_frames == 130
    assert after.content != before.content
    assert _versions(paths) == [f"{before.content[:16]}-1", f"{after.content[:16]}-2"]


def test_an_open_reader_keeps_its_version(published, tmp_path):
    paths, before = published
    reader = ZarrStore(paths).open(ID)
    publish_draft(paths, small_draft(tmp_path, frames=90, episode_id=ID), settings=SETTINGS)
    assert reader.digests == before
    assert reader.frames("front_1", [129]).shape == (1, 48, 64, 3)
    assert len(reader.rows(["obs_head_pose"], [(0, 130)])["obs_head_pose"]) == 130


def test_going_back_to_an_older_content_points_at_its_version(published, draft, tmp_path):
    paths, before = published
    publish_draft(paths, small_draft(tmp_path, frames=90, episode_id=ID), settings=SETTINGS)
    assert publish_draft(paths, draft, settings=SETTINGS) == before
    assert ZarrStore(paths).open(ID).digests == before
    assert len(_versions(paths)) == 2


def test_ids_equal_but_for_case_are_refused(paths, tmp_path):
    publish_draft(paths, small_draft(tmp_path, frames=20, episode_id="Take-a"), settings=SETTINGS)
    with pytest.raises(SchemaError, match="episode take-A: the store already has Take-a, equal when case is ignored"):
        publish_draft(paths, small_draft(tmp_path, frames=20, episode_id="take-A"), settings=SETTINGS)
    assert ZarrStore(paths).episode_ids() == ["Take-a"]


def test_content_that_is_gone_is_named(published):
    paths, _ = published
    with pytest.raises(EpisodeNotFoundError, match=f"episode {ID}: no version with content aaaaaaaaaaaaaaaa"):
        ZarrStore(paths).open(ID, content="a" * 64)


def test_annotations_are_replaced_in_a_new_version_that_shares_media(published, draft):
    paths, before = published
    shared_before = _inodes(paths.episode_link(ID).resolve())
    spans = {SUBTASK: [Span("grasp", 0, 5)], "annotations": []}
    after = attach_annotations(paths, ID, spans, expected=before.content)
    reader = ZarrStore(paths).open(ID)
    assert reader.annotation_keys == ("annotations", SUBTASK)
    assert reader.spans(SUBTASK) == (Span("grasp", 0, 5),)
    assert reader.spans("annotations") == ()
    assert reader.spans(TASK) is None
    assert (after.media, after.calibration, after.meta) == (before.media, before.calibration, before.meta)
    assert reader.digests == after
    shared_after = _inodes(paths.episode_link(ID).resolve())
    kept = {name for name in shared_before if not name.startswith("annotations") and name != "zarr.json"}
    assert {name for name in kept if shared_after[name] == shared_before[name]} == kept
    assert shared_after["zarr.json"] != shared_before["zarr.json"]
    assert verify_episode(paths, ID) == []
    assert verify_episode(paths, ID, content=before.content) == []
    old = ZarrStore(paths).open(ID, content=before.content)
    assert old.spans(TASK) == tuple(draft.annotations[TASK])


def test_attaching_what_is_there_changes_nothing(published, draft):
    paths, before = published
    assert attach_annotations(paths, ID, draft.annotations, expected=before.content) == before
    assert attach_calibration(paths, ID, draft.calibration, expected=before.content) == before
    assert len(_versions(paths)) == 1


def test_attaching_gives_the_content_that_publishing_would(published, draft, tmp_path):
    paths, before = published
    removed = attach_annotations(paths, ID, {}, expected=before.content)
    assert publish_draft(paths, replace(draft, annotations={}), settings=SETTINGS) == removed
    assert len(_versions(paths)) == 2


def test_calibration_is_replaced(published, draft):
    paths, before = published
    camera = draft.calibration.cameras["front_1"]
    other = Calibration("head", {"front_1": replace(camera, distortion=(0.0, 0.0, 0.0, 0.0))})
    after = attach_calibration(paths, ID, other, expected=before.content)
    assert ZarrStore(paths).open(ID).calibration == other
    assert (after.media, after.annotations, after.meta) == (before.media, before.annotations, before.meta)
    gone = attach_calibration(paths, ID, None, expected=after.content)
    assert ZarrStore(paths).open(ID).calibration is None
    assert "intrinsics" not in ZarrStore(paths).open(ID).attributes
    assert verify_episode(paths, ID) == []
    assert gone.calibration != after.calibration


def test_compare_and_swap(published):
    paths, before = published
    attach_annotations(paths, ID, {}, expected=before.content)
    with pytest.raises(ConflictError, match=f"episode {ID}: expected content {before.content[:16]}, it is "):
        attach_annotations(paths, ID, {TASK: []}, expected=before.content)
    with pytest.raises(EpisodeNotFoundError):
        attach_annotations(paths, "nobody", {}, expected=before.content)


def test_a_span_outside_the_episode_is_refused(published):
    paths, before = published
    with pytest.raises(SchemaError, match=r"annotations_task: span \[0, 131\) ends after frame 130"):
        attach_annotations(paths, ID, {TASK: [Span("x", 0, 131)]}, expected=before.content)
    assert len(_versions(paths)) == 1


def test_one_writer_at_a_time(published):
    paths, _ = published
    with on_disk.episode_lock(paths, ID):
        with pytest.raises(ConflictError, match=f"episode {ID}: another process"), on_disk.episode_lock(paths, ID, timeout_s=0.05):
            pass
        with pytest.raises(ConflictError):
            clean_leftovers(paths, ID)


def test_leftovers_are_removed_and_nothing_else(published):
    paths, digests = published
    build = paths.episode_versions(ID) / ".build"
    (build / "episode.zarr").mkdir(parents=True)
    (build / "episode.zarr" / "zarr.json").write_text("half")
    (paths.zarr / f".{ID}.zarr.link").symlink_to(".v/nowhere")
    assert ZarrStore(paths).episode_ids() == [ID]
    assert set(clean_leftovers(paths, ID)) == {".build", f".{ID}.zarr.link"}
    assert clean_leftovers(paths, ID) == []
    assert _versions(paths) == [f"{digests.content[:16]}-1"]
    with pytest.raises(EpisodeNotFoundError):
        clean_leftovers(paths, "nobody")


FILL_THE_DISK = """
import resource, signal, sys
from pathlib import Path
from egodata.errors import InputError
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings
paths, folder = open_root(Path(sys.argv[1])), Path(sys.argv[2])
draft = small_draft(folder, frames=90, episode_id=sys.argv[3])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))
try:
    publish_draft(paths, draft, settings=EncodeSettings(frames_per_chunk=50, gop=12, bframes=3))
except InputError as error:
    print(error)
"""


def test_a_full_disk_keeps_the_old_version_and_leaves_nothing(published, tmp_path):
    paths, before = published
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    told = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(paths.root), str(tmp_path), ID], capture_output=True, text=True, check=True
    ).stdout
    assert f"episode {ID}: no room in {paths.root}" in told
    assert sorted(path.name for path in paths.episode_versions(ID).iterdir()) == sorted([".lock", f"{before.content[:16]}-1"])
    assert verify_episode(paths, ID) == []


def test_a_store_that_refuses_writing_is_one_line(published, tmp_path, monkeypatch):
    paths, before = published

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(InputError, match=f"episode {ID}: .* cannot be written to"):
        attach_annotations(paths, ID, {}, expected=before.content)


def test_digests_do_not_depend_on_identity(paths, tmp_path):
    one = publish_draft(paths, small_draft(tmp_path, frames=30, episode_id="one"), settings=SETTINGS)
    two = publish_draft(paths, small_draft(tmp_path, frames=30, episode_id="two"), settings=SETTINGS)
    assert one == two
    other = publish_draft(paths, small_draft(tmp_path, frames=30, episode_id="three", operator=None), settings=SETTINGS)
    assert other.media == one.media
    assert other.meta != one.meta


def test_minus_zero_and_nan_payloads_do_not_change_the_digest(paths, tmp_path):
    draft = small_draft(tmp_path, frames=30)
    key = "right.obs_ee_pose"
    first = draft.arrays[key].copy()
    first[0] = 0.0
    second = first.copy()
    second[0] = -0.0
    made = [publish_draft(paths, replace(draft, arrays={**draft.arrays, key: array}), settings=SETTINGS) for array in (first, second)]
    assert made[0] == made[1]
    assert np.isnan(draft.arrays["left.obs_ee_pose"][10]).all()

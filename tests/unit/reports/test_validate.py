"""Every signature of bad data in docs/domain.md, section 3, is found, and a good episode has none."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egodata.annotations import TASK, Span
from egodata.calibration import Calibration, CameraCalibration, pinhole_matrix
from egodata.cli.main import cli, run as run_command
from egodata.findings import Severity
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.reports.validate import validate_episode
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(gop=12, bframes=3)
OLD = Path(__file__).resolve().parents[2] / "golden" / "v3" / "store"


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return small_draft(tmp_path_factory.mktemp("validate"), frames=60)


def _found(tmp_path, draft):
    paths = open_root(tmp_path / "store", create=True)
    publish_draft(paths, draft, settings=SETTINGS)
    reader = ZarrStore(paths).open(draft.meta.episode_id)
    found = validate_episode(reader)
    reader.close()
    return found


def _with(draft, key, change):
    array = draft.arrays[key].copy()
    change(array)
    return replace(draft, arrays={**draft.arrays, key: array})


def _camera(fx, fy, cx, cy, size=(64, 48)):
    return Calibration("head", {"front_1": CameraCalibration(pinhole_matrix(fx, fy, cx, cy), "PINHOLE", (), size)})


def _set(index, value):
    def change(array):
        array[index] = value

    return change


HEAD, RIGHT, STAMPS = "obs_head_pose", "right.obs_ee_pose", "obs_rgb_timestamps_ns"
IDENTITY = (slice(0, 3), slice(3, 7)), (1, 0, 0, 0)
CASES = {
    "quaternion-identity": lambda d: _with(d, RIGHT, _set(*IDENTITY)),
    "quaternion-norm": lambda d: _with(d, RIGHT, lambda a: a.__setitem__((slice(5, 7), slice(3, 7)), a[5:7, 3:] * 1.001)),
    "rows-identical": lambda d: _with(d, HEAD, lambda a: a.__setitem__(slice(None), a[5].copy())),
    "head-jump": lambda d: _with(d, HEAD, lambda a: a.__setitem__((slice(30, None), 0), a[30:, 0] + 0.5)),
    "mask-wrong": lambda d: _with(d, RIGHT, _set(slice(4, 6), np.nan)),
    "mask-filled": lambda d: _with(d, f"{RIGHT}_valid", _set(slice(4, 6), False)),
    "feature-empty": lambda d: _with(_with(d, f"{RIGHT}_valid", _set(slice(None), False)), RIGHT, _set(slice(None), np.nan)),
    "stamps-order": lambda d: _with(d, STAMPS, lambda a: a.__setitem__(9, a[8])),
    "stamps-float": lambda d: _with(
        d, STAMPS, lambda a: a.__setitem__(slice(None), (a // 256) * 256 // 256 * 0 + 2**40 + np.arange(60) * 2**25)
    ),
    "fps-differs": lambda d: _with(d, STAMPS, lambda a: a.__setitem__(slice(None), a[0] + np.arange(60) * 40_000_001)),
    "k-invented": lambda d: replace(d, calibration=_camera(64, 64, 32, 24)),
    "k-outside": lambda d: replace(d, calibration=_camera(25, 25, 80, 24)),
    "k-resolution": lambda d: replace(d, calibration=_camera(25, 25, 30, 24, (128, 96))),
    "k-focal": lambda d: replace(d, calibration=_camera(-25, 25, 30, 24)),
    "camera-without-k": lambda d: replace(d, calibration=None),
    "text-joined": lambda d: replace(d, annotations={TASK: [Span("a | b", 0, 5)]}),
    "text-empty": lambda d: replace(d, annotations={TASK: [Span("  ", 0, 5)]}),
    "embodiment-alias": lambda d: replace(d, meta=replace(d.meta, embodiment="mecka_bimanual")),
    "embodiment-unknown": lambda d: replace(d, meta=replace(d.meta, embodiment="human_bimanul")),
    "hand-frame-unknown": lambda d: replace(d, meta=replace(d.meta, hand_frame_convention="unknown")),
}


def test_a_good_episode_has_no_findings(tmp_path, draft):
    assert _found(tmp_path, draft) == []


@pytest.mark.parametrize("code", CASES)
def test_each_signature_is_found_and_nothing_else(tmp_path, draft, code):
    found = _found(tmp_path, CASES[code](draft))
    assert code in {finding.code for finding in found}
    also = {"stamps-float": {"fps-differs"}}.get(code, set())
    assert {finding.code for finding in found} <= {code} | also, [finding.message for finding in found]
    assert all(finding.episode == draft.meta.episode_id for finding in found)


def test_a_mask_that_is_missing_is_an_error(tmp_path, draft):
    key = f"{RIGHT}_valid"
    arrays = {name: array for name, array in draft.arrays.items() if name != key}
    features = {name: spec for name, spec in draft.meta.features.items() if name != key}
    found = _found(tmp_path, replace(draft, arrays=arrays, meta=replace(draft.meta, features=features)))
    assert [(finding.code, finding.severity, finding.stream) for finding in found] == [("mask-missing", Severity.ERROR, RIGHT)]


def test_unreadable_parts_are_findings(tmp_path, draft):
    paths = open_root(tmp_path / "store", create=True)
    publish_draft(paths, draft, settings=SETTINGS)
    group = paths.episode_link(draft.meta.episode_id)
    (group / RIGHT / "c" / "0" / "0").unlink()
    (group / "annotations_task" / "c" / "0").write_bytes(b"\1\0\0\0\2\0\0\0{]")
    codes = [finding.code for finding in validate_episode(ZarrStore(paths).open(draft.meta.episode_id))]
    assert codes.count("episode-unreadable") >= 2


def test_the_command(tmp_path, draft, capsys):
    paths = open_root(tmp_path / "store", create=True)
    publish_draft(paths, replace(draft, calibration=None), settings=SETTINGS)
    root, episode = str(paths.root), draft.meta.episode_id
    assert run_command(cli, ["validate", root, episode], program="egodata") == 0
    assert "1 episodes: 0 error, 1 warning, 0 info; pass" in capsys.readouterr().out
    assert run_command(cli, ["validate", root, "--strict", "--json"], program="egodata") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["episodes"], [f["code"] for f in told["findings"]]) == ("fail", 1, ["camera-without-k"])
    assert run_command(cli, ["validate", root, "nobody"], program="egodata") == 2


def test_old_stores_can_be_validated_and_inspected(capsys):
    assert run_command(cli, ["validate", str(OLD), "--json"], program="egodata") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["episodes"] == 4
    assert {"schema-old", "hand-frame-unknown", "stamps-missing", "text-joined", "camera-without-k", "span-outside"} <= {
        f["code"] for f in told["findings"]
    }
    assert run_command(cli, ["inspect", str(OLD)], program="egodata") == 0
    assert "v31-robot" in capsys.readouterr().out
    assert run_command(cli, ["inspect", str(OLD), "v30-jpeg", "--json"], program="egodata") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema_version"] == "v3.0"
    assert "schema-old" in {finding["code"] for finding in report["findings"]}

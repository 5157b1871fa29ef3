"""`egodata attach`: files become a new version; what does not fit is said."""

import json

import pytest

from egodata.annotations import SUBTASK, TASK, Span
from egodata.cli.main import cli, run as run_command
from egodata.formats.zarr import ZarrStore, publish_draft, verify_episode
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

ID = "5f0c00000000000000000001"


@pytest.fixture
def paths(tmp_path):
    made = open_root(tmp_path / "store", create=True)
    publish_draft(made, small_draft(tmp_path, frames=60, episode_id=ID), settings=EncodeSettings(gop=12, bframes=3))
    return made


def _run(paths, file, kind, *more):
    return run_command(cli, ["attach", str(paths.root), ID, str(file), "--kind", kind, *more], program="egodata")


def test_csv_and_json_annotations(paths, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("label,start_time,end_time,role\nlift_it,0,1,\nwhole,0.5,1.5,task\nafter,9,10,\n")
    assert _run(paths, tmp_path / "a.csv", "annotations") == 0
    told = capsys.readouterr().out
    assert "refused: outside the video" in told and "content " in told
    reader = ZarrStore(paths).open(ID)
    assert reader.spans(SUBTASK) == (Span("lift it", 0, 30),)
    assert reader.spans(TASK) == (Span("whole", 15, 45),)
    (tmp_path / "b.json").write_text(json.dumps({"annotations_task": [{"text": "Ω", "start_idx": 3, "end_idx": 9}]}))
    assert _run(paths, tmp_path / "b.json", "annotations") == 0
    reader = ZarrStore(paths).open(ID)
    assert (reader.spans(TASK), reader.annotation_keys) == ((Span("Ω", 3, 9),), (SUBTASK, TASK) if SUBTASK < TASK else (TASK, SUBTASK))
    assert _run(paths, tmp_path / "b.json", "annotations", "--replace") == 0
    assert ZarrStore(paths).open(ID).annotation_keys == (TASK,)
    capsys.readouterr()
    assert _run(paths, tmp_path / "b.json", "annotations") == 0
    assert "nothing changed" in capsys.readouterr().out
    assert verify_episode(paths, ID) == []


def test_calibration_is_scaled_to_the_stored_size(paths, tmp_path):
    values = {"w": 1920, "h": 1440, "fl_x": 752.5, "fl_y": 753.0, "cx": 961.8, "cy": 553.2, "k1": 0.05}
    (tmp_path / "i.json").write_text(json.dumps(values))
    assert _run(paths, tmp_path / "i.json", "calibration") == 0
    camera = ZarrStore(paths).open(ID).calibration.cameras["front_1"]
    assert camera.resolution == (64, 48)
    assert camera.k[0][0] == pytest.approx(752.5 / 30)
    assert camera.k[0][2] == pytest.approx((961.8 + 0.5) / 30 - 0.5)
    assert verify_episode(paths, ID) == []


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        ("a.csv", "label,start_time,end_time\nx,1900000000,1900000001\n", "annotations", "nothing in it can be attached"),
        ("a.json", "{]", "annotations", "not readable JSON"),
        ("a.json", '{"annotations_task": [{"text": "x"}]}', "annotations", "expected text, and start_idx and end_idx in whole frames"),
        ("a.json", '{"annotations_task": [{"text": "x", "start_idx": 0.5, "end_idx": 9}]}', "annotations", "in whole frames, got"),
        ("a.json", '{"annotations_task": [{"text": null, "start_idx": 0, "end_idx": 9}]}', "annotations", "expected text, and"),
        ("a.json", "[1]", "annotations", "expected an object of lists by key, got a list"),
        (
            "i.json",
            '{"w": 64, "h": 48, "fl_x": NaN, "fl_y": 60, "cx": 32, "cy": 24}',
            "calibration",
            "got focal lengths nan and 60 at 64x48",
        ),
        ("i.json", '{"w": 64, "h": 48, "fl_x": 60, "fl_y": -1, "cx": 32, "cy": 24}', "calibration", "focal lengths and size above 0"),
        ("i.json", '{"w": 0, "h": 48, "fl_x": 60, "fl_y": 60, "cx": 32, "cy": 24}', "calibration", "at 0x48"),
        ("a.json", '{"annotations_task": [{"text": "x", "start_idx": 0, "end_idx": 61}]}', "annotations", "ends after frame 60"),
        ("a.json", '{"notes": []}', "annotations", "expected it to start with annotations"),
        ("c.json", "{}", "calibration", "calibration"),
        ("c.json", "[1]", "calibration", "neither docs/format.md's form"),
    ],
)
def test_what_does_not_fit_is_one_line_and_changes_nothing(paths, tmp_path, capsys, name, text, kind, message):
    before = ZarrStore(paths).open(ID).digests
    (tmp_path / name).write_text(text)
    assert _run(paths, tmp_path / name, kind) == 2
    assert message in capsys.readouterr().err
    assert ZarrStore(paths).open(ID).digests == before


def test_compare_and_swap(paths, tmp_path, capsys):
    (tmp_path / "b.json").write_text("{}")
    assert _run(paths, tmp_path / "b.json", "annotations", "--expected", "0" * 64) == 2
    assert "expected content 0000000000000000" in capsys.readouterr().err

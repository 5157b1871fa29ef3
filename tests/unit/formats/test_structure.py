"""Structural spans: stored, hashed, attached, copied to Lance, compared and exported like annotations, and never among texts."""

import json
from dataclasses import replace

import pytest

from egodata.annotations import SUBTASK, Span, decode_span, divided
from egodata.catalog.rows import catalog_from_lance, catalog_from_store
from egodata.cli.main import cli, run as run_command
from egodata.episode import read_spans
from egodata.errors import SchemaError
from egodata.formats import open_store
from egodata.formats.lance import build_lance, tables
from egodata.formats.zarr import ZarrStore, attach_annotations, publish_draft, verify_episode
from egodata.formats.zarr.export31 import export_zarr31
from egodata.formats.zarr.legacy import LegacyStore, legacy_draft
from egodata.parity import check_parity
from egodata.reports.validate import validate_episode
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.testing.memory import ramp_joints
from egodata.video import EncodeSettings
from tests.unit.parity.conftest import Falsified

ID = "5f0c00000000000000000001"
SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)
FOLDS = {"fold_segments": [Span("", 0, 12), Span("left over right", 12, 30)], "grasp_segments": []}


@pytest.fixture
def store(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    draft = replace(
        small_draft(tmp_path, frames=30, size=(32, 32), episode_id=ID, annotations={SUBTASK: [Span("x", 0, 5)]}), structure=FOLDS
    )
    publish_draft(paths, draft, settings=SETTINGS)
    return paths, draft


def expected(structure):
    return {SUBTASK: (Span("x", 0, 5),), **{key: tuple(spans) for key, spans in structure.items()}}


def test_both_formats_give_them_back_and_they_are_part_of_the_content(store, tmp_path):
    paths, draft = store
    build_lance(paths)
    for format in ("zarr", "lance"):
        reader = open_store(paths, format).open(ID)
        assert (reader.annotation_keys, reader.structure_keys) == ((SUBTASK,), ("fold_segments", "grasp_segments"))
        assert read_spans(reader) == expected(FOLDS)
    assert verify_episode(paths, ID) == []
    other = open_root(tmp_path / "other", create=True)
    bare = publish_draft(other, replace(draft, structure={}), settings=SETTINGS)
    found = ZarrStore(paths).open(ID).digests
    assert (found.media, found.meta) == (bare.media, bare.meta)
    assert found.annotations != bare.annotations
    rows = [catalog_from_store(ZarrStore(paths)), catalog_from_lance(paths)]
    assert rows[0] == rows[1]
    assert rows[0][0].annotation_keys == (SUBTASK, "fold_segments", "grasp_segments")


def test_attaching_texts_keeps_them_and_attaching_them_keeps_texts(store):
    paths, _ = store
    before = ZarrStore(paths).open(ID).digests
    again = attach_annotations(paths, ID, {SUBTASK: [Span("x", 0, 5)]}, expected=before.content)
    assert again == before
    texts = attach_annotations(paths, ID, {SUBTASK: [Span("y", 1, 2)]}, expected=before.content)
    assert read_spans(ZarrStore(paths).open(ID)) == {**expected(FOLDS), SUBTASK: (Span("y", 1, 2),)}
    fewer = {"fold_segments": [Span("", 3, 4)]}
    attach_annotations(paths, ID, {SUBTASK: [Span("x", 0, 5)]}, expected=texts.content, structure=fewer)
    assert read_spans(ZarrStore(paths).open(ID)) == expected(fewer)
    assert verify_episode(paths, ID) == []


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ({"annotations_x": []}, "structural key annotations_x: expected a name that is no annotation, image or feature"),
        ({"obs_head_pose": []}, "structural key obs_head_pose"),
        ({"images.front_1": []}, "structural key images.front_1"),
        ({"fold_segments": [Span("", 0, 31)]}, r"fold_segments: span \[0, 31\) ends after frame 30"),
        ({"fold__segments": []}, "feature key 'fold__segments'"),
    ],
)
def test_keys_and_spans_that_break_the_format_are_refused(store, tmp_path, structure, message):
    paths, draft = store
    with pytest.raises(SchemaError, match=message):
        publish_draft(open_root(tmp_path / "other", create=True), replace(draft, structure=structure), settings=SETTINGS)
    with pytest.raises(SchemaError, match=message):
        attach_annotations(paths, ID, {}, expected=ZarrStore(paths).open(ID).digests.content, structure=structure)


def test_parity_finds_a_changed_structural_span(store):
    paths, _ = store
    build_lance(paths)
    assert check_parity(paths).passed
    keys = tables.open_table(paths, "annotations").to_table(columns=["key"])["key"].to_pylist()
    Falsified(paths).set_cell("annotations", ID, "end", keys.index("fold_segments"), 13)
    report = check_parity(paths)
    assert [(item.code, item.stream) for item in report.level("content").outcome.findings] == [("parity-spans", "fold_segments")]


def test_v31_and_back(store, tmp_path):
    """Exported as arrays under their own keys, read from there again, also where elements carry no text."""
    reader = ZarrStore(store[0]).open(ID)
    export_zarr31(reader, tmp_path / "v31")
    old = LegacyStore(tmp_path / "v31").open(ID)
    assert read_spans(old) == expected(FOLDS)
    draft = legacy_draft(old, declared=None, dataset="d", delivery="d")
    assert {key: tuple(spans) for key, spans in draft.structure.items()} == {key: tuple(spans) for key, spans in FOLDS.items()}
    assert decode_span(b'{"start_idx":1,"end_idx":4}', text_optional=True) == Span("", 1, 4)
    for data in (b'{"start_idx":1,"end_idx":4}', b"[]"):
        with pytest.raises(SchemaError, match="expected JSON with text, start_idx, end_idx"):
            decode_span(data, text_optional=data == b"[]")


def test_a_json_file_attaches_them(store, tmp_path, capsys):
    paths, _ = store
    file = tmp_path / "segments.json"
    file.write_text(json.dumps({"fold_segments": [{"start_idx": 2, "end_idx": 9}]}))
    attach = ["attach", str(paths.root), ID, str(file), "--kind"]
    assert run_command(cli, [*attach, "annotations"], program="egodata") == 2
    assert "annotation key fold_segments: expected it to start with annotations" in capsys.readouterr().err
    assert run_command(cli, [*attach, "structure"], program="egodata") == 0
    assert read_spans(ZarrStore(paths).open(ID)) == expected({**FOLDS, "fold_segments": [Span("", 2, 9)]})
    file.write_text(json.dumps({"annotations_task": [{"start_idx": 2, "end_idx": 9}]}))
    assert run_command(cli, [*attach, "annotations"], program="egodata") == 2
    assert "expected text, and start_idx and end_idx in whole frames" in capsys.readouterr().err
    file.write_text(json.dumps({"annotations_task": []}))
    assert run_command(cli, [*attach, "structure"], program="egodata") == 2
    assert "structural key annotations_task: expected a name that is no annotation" in capsys.readouterr().err
    file.write_text(json.dumps({"grasp_segments": [{"start_idx": 0, "end_idx": 1}]}))
    assert run_command(cli, [*attach, "structure", "--replace"], program="egodata") == 0
    assert read_spans(ZarrStore(paths).open(ID)) == expected({"grasp_segments": [Span("", 0, 1)]})


def test_they_are_shown_and_an_empty_text_is_no_finding(store, capsys):
    paths, _ = store
    assert run_command(cli, ["inspect", str(paths.root), ID], program="egodata") == 0
    assert "left over right" not in (told := capsys.readouterr().out).split("fold_segments")[0]
    assert "grasp_segments" in told
    found = validate_episode(ZarrStore(paths).open(ID))
    assert not [finding for finding in found if finding.stream == "fold_segments"]


def test_a_structural_span_after_the_end_is_a_finding(tmp_path):
    """As an old store may hold it; a v4 writer refuses it."""
    late = ramp_joints("late", frames=10)
    late.annotations = {"fold_segments": [Span("", 4, 11)]}
    found = [finding for finding in validate_episode(late) if finding.stream == "fold_segments"]
    assert [(finding.code, finding.frames) for finding in found] == [("span-outside", (4, 11))]


def test_dividing_spans_by_key():
    assert divided({"annotations": [], "fold_segments": [Span("", 0, 1)]}) == ({"annotations": []}, {"fold_segments": [Span("", 0, 1)]})

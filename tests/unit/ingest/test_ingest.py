"""A delivery becomes episodes once; what is broken is set aside and named; nothing else is touched."""

import json
import os
import shutil
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from egodata.cli.ingest import ingest as command
from egodata.cli.main import cli, run
from egodata.errors import InputError, NotFoundError, SchemaError
from egodata.findings import Severity
from egodata.formats.zarr import ZarrStore, verify_episode
from egodata.ingest import IngestOptions, discover, ingest
from egodata.ingest.build import Job
from egodata.ingest.run import _treat_all
from egodata.schema.layout import StorePaths, open_root
from egodata.vendors import VendorOptions, get_vendor
from tests.unit.vendors.conftest import INTRINSICS, MeckaFiles

from .conftest import FAST, IDS


def counts(report):
    assert report.inputs == len(report.built) + len(report.set_aside) + len(report.skipped) + len(report.absent)
    return len(report.built), len(report.set_aside), len(report.skipped), len(report.absent)


def cut(mecka):
    path = mecka.folder / f"{mecka.id}_video.mp4"
    path.write_bytes(mecka.video[: len(mecka.video) // 2])


def contents(bench):
    store = ZarrStore(bench.paths)
    return {identity: store.open(identity).digests for identity in store.episode_ids()}


def quarantined(bench):
    return sorted(path.stem for path in bench.paths.root.glob("quarantine/mecka/*/*.json"))


def test_builds_once_and_skips_then(raw, bench):
    report = bench()
    assert counts(report) == (3, 0, 0, 0) and report.status == 0
    before = contents(bench)
    assert tuple(before) == IDS and {o.recording: o.episodes[o.recording] for o in report.outcomes} == {
        k: d.content for k, d in before.items()
    }
    assert verify_episode(bench.paths, IDS[0]) == []
    again = bench()
    assert counts(again) == (0, 0, 3, 0) and again.status == 0 and contents(bench) == before
    assert [len(list(bench.paths.episode_versions(identity).glob("*-*"))) for identity in IDS] == [1, 1, 1]


def test_force_builds_again_to_the_same_content(raw, bench):
    bench()
    before = contents(bench)
    assert counts(bench(force=True)) == (3, 0, 0, 0)
    assert contents(bench) == before


def test_a_truncated_video_is_set_aside_and_a_repaired_one_is_built_alone(raw, bench):
    cut(raw[IDS[1]])
    report = bench()
    assert counts(report) == (2, 1, 0, 0) and report.status == 1 and report.set_aside == (IDS[1],)
    record = json.loads(bench.paths.quarantine("mecka", "raw", IDS[1]).read_text())
    assert record["findings"][0]["code"] == "video-unreadable" and len(record["findings"][0]["message"]) < 300
    video = next(file for file in record["files"] if file["path"].endswith(".mp4"))
    assert video["size_bytes"] == len(raw[IDS[1]].video) // 2 and len(video["sha256"]) == 64
    assert counts(bench()) == (0, 1, 2, 0)
    raw[IDS[1]].write()
    report = bench()
    assert counts(report) == (1, 0, 2, 0) and report.built == (IDS[1],) and report.status == 0
    assert quarantined(bench) == []


def test_a_broken_redelivery_keeps_the_old_episode(raw, bench):
    bench()
    before = contents(bench)
    cut(raw[IDS[0]])
    assert counts(bench()) == (0, 1, 2, 0)
    assert contents(bench) == before


def test_only_annotations_changed_are_attached_without_encoding(raw, bench, monkeypatch):
    raw[IDS[2]].listed = ("annotations",)  # the file comes later than the JSON that lists it
    raw[IDS[2]].write()
    bench()
    before = contents(bench)[IDS[2]]
    monkeypatch.setattr("egodata.ingest.build.publish_draft", None)
    raw[IDS[2]].annotations = "label,start_time,end_time\nreach,0,0.2\n"
    raw[IDS[2]].write()
    report = bench()
    assert report.attached == (IDS[2],) and counts(report) == (1, 0, 2, 0)
    after = contents(bench)[IDS[2]]
    assert after.media == before.media and after.meta == before.meta and after.annotations != before.annotations
    reader = ZarrStore(bench.paths).open(IDS[2])
    assert [span.text for span in reader.spans("annotations_subtask")] == ["reach"]
    assert counts(bench()) == (0, 0, 3, 0)


def test_only_calibration_changed_is_attached(raw, bench, monkeypatch):
    bench()
    before = contents(bench)[IDS[0]]
    monkeypatch.setattr("egodata.ingest.build.publish_draft", None)
    raw[IDS[0]].intrinsics = json.dumps({**INTRINSICS, "fl_x": 700.0})
    raw[IDS[0]].write()
    assert bench().attached == (IDS[0],)
    after = contents(bench)[IDS[0]]
    assert (after.media, after.meta, after.annotations) == (before.media, before.meta, before.annotations)
    assert ZarrStore(bench.paths).open(IDS[0]).calibration.cameras["front_1"].k[0][0] == pytest.approx(35)


def test_media_or_settings_changed_is_built_anew(raw, bench, tmp_path):
    bench()
    raw[IDS[0]].hands = raw[IDS[0]].hands.replace("0,0,0,0.4", "0,0,0,0.5", 1)
    raw[IDS[0]].write()
    assert bench().built == (IDS[0],)
    own = tmp_path / "own.yaml"
    own.write_text("head_jump_m: 0.5\n")
    assert counts(bench(config=str(own))) == (3, 0, 0, 0)


def test_a_lost_episode_is_built_again(raw, bench):
    bench()
    bench.paths.episode_link(IDS[0]).unlink()
    assert bench().built == (IDS[0],)


def test_a_redelivery_under_another_name_is_skipped_by_digest(raw, bench, tmp_path):
    bench()
    shutil.copytree(bench.raw, tmp_path / "second")
    report = ingest(tmp_path / "second", options=bench.options(delivery="second"))
    assert counts(report) == (0, 0, 3, 0)


def test_an_unexpected_exception_is_one_recordings_own(raw, bench, monkeypatch):
    def surprise(paths, draft, *, settings):
        if draft.meta.episode_id == IDS[0]:
            raise ZeroDivisionError("by chance")
        return original(paths, draft, settings=settings)

    from egodata.ingest import build

    original = build.publish_draft
    monkeypatch.setattr(build, "publish_draft", surprise)
    report = bench()
    assert counts(report) == (2, 1, 0, 0)
    (finding,) = report.outcomes[0].findings
    assert finding.code == "internal-error" and "ZeroDivisionError: by chance" in finding.message


def test_a_full_disk_is_said_and_leaves_nothing(raw, bench, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "x.tmp")

    monkeypatch.setattr("egodata.ingest.build.publish_draft", full)
    report = bench(only=(IDS[0],))
    assert report.outcomes[0].findings[0].code == "io-error" and "No space left" in report.outcomes[0].findings[0].message
    assert ZarrStore(bench.paths).episode_ids() == []


def test_only_and_limit(raw, bench):
    assert bench(only=(IDS[1],)).built == (IDS[1],)
    assert counts(bench(limit=2)) == (1, 0, 1, 0)
    with pytest.raises(NotFoundError, match="did you mean 5f0c"):
        bench(only=("5f0c00000000000000000009",))


def test_one_id_twice_in_a_delivery_is_an_error_for_both(raw, bench):
    shutil.copytree(raw[IDS[0]].folder, bench.raw / "copy")
    report = bench()
    assert counts(report) == (2, 2, 0, 0) and {f.code for f in report.findings if f.severity is Severity.ERROR} == {"id-collision"}
    assert counts(bench(only=(IDS[0],))) == (0, 2, 0, 0)
    assert len(quarantined(bench)) == 2 and ZarrStore(bench.paths).episode_ids() == [IDS[1], IDS[2]]


def test_a_run_over_some_reads_the_ledger_of_no_others(raw, bench):
    bench(only=(IDS[0],))
    (bench.paths.ledger / "ingest" / f"{IDS[0]}.json").write_text("{")
    assert bench(only=(IDS[1],)).built == (IDS[1],)


def test_ids_that_differ_in_case_only_are_refused(raw, bench, video):
    bench()
    MeckaFiles(bench.raw, IDS[0].upper(), video=video).write()
    report = bench()
    assert counts(report) == (0, 1, 3, 0)
    assert f"recording {IDS[0]} is in the store" in report.outcomes[0].findings[0].message


def test_another_vendors_id_is_never_overwritten(raw, bench):
    bench()
    path = bench.paths.ledger / "ingest" / f"{IDS[0]}.json"
    path.write_text(path.read_text().replace('"vendor": "mecka"', '"vendor": "scale"'))
    report = bench()
    assert counts(report) == (0, 1, 2, 0) and "from scale" in report.findings[-1].message + report.findings[0].message


def test_where_it_came_from_is_kept_but_is_not_content(raw, bench, tmp_path):
    bench()
    meta = ZarrStore(bench.paths).open(IDS[0]).meta
    assert meta.provenance["source"]["uri"] == bench.raw.as_uri() and len(meta.provenance["source"]["raw"]) == 64
    assert (meta.processing["converter"], meta.processing["version"]) == ("mecka", 2)
    assert meta.processing["settings"]["stored_size_px"] == [640, 360] and meta.processing["encode"]["crf"] == 30


def test_the_stored_episode_is_the_draft(raw, bench):
    bench()
    reader, draft = ZarrStore(bench.paths).open(IDS[0]), raw[IDS[0]].draft()
    rows = reader.rows(list(draft.arrays), [(0, 12)] * len(draft.arrays))
    assert all(np.array_equal(rows[key], draft.arrays[key], equal_nan=draft.arrays[key].dtype.kind == "f") for key in draft.arrays)
    assert reader.calibration == draft.calibration and reader.frames("front_1", [11]).shape == (1, 54, 96, 3)


def test_worker_processes_give_the_same_store(raw, bench, tmp_path):
    cut(raw[IDS[1]])
    steps = []
    report = ingest(bench.raw, options=bench.options(workers=2), progress=lambda *step: steps.append(step))
    assert counts(report) == (2, 1, 0, 0) and steps[0] == ("ingest", 0, 3) and steps[-1] == ("ingest", 3, 3)
    alone = ingest(bench.raw, options=IngestOptions("mecka", tmp_path / "alone", workers=1, settings=bench.options().settings))
    assert [(o.recording, o.status, o.episodes) for o in alone.outcomes] == [(o.recording, o.status, o.episodes) for o in report.outcomes]


class _DeadlyDetails(dict):
    """Ends whatever process unpickles it, as running out of memory would."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_worker_that_dies_costs_only_its_recording(raw, bench):
    paths = open_root(bench.paths.root, create=True)
    refs = discover(bench.raw, "mecka").recordings
    vendor_settings = get_vendor("mecka").settings(VendorOptions("raw", "raw"))
    job = Job(paths, VendorOptions("raw", "raw"), FAST, vendor_settings)
    deadly = replace(refs[1], details=_DeadlyDetails(why="memory"))
    outcomes = {outcome.recording: outcome for outcome in _treat_all([refs[0], deadly, refs[2]], job, workers=2)}
    assert {identity: outcome.status for identity, outcome in outcomes.items()} == {IDS[0]: "built", IDS[1]: "set_aside", IDS[2]: "built"}
    assert outcomes[IDS[1]].findings[0].code == "worker-died" and quarantined(bench) == [IDS[1]]


def test_an_interrupt_ends_the_workers_and_the_next_run_goes_on(raw, bench):
    def impatient(label, done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(bench.raw, options=bench.options(workers=2), progress=impatient)
    assert active_children() == []
    report = bench()
    assert len(report.built) + len(report.skipped) == 3 and report.skipped and verify_episode(bench.paths, IDS[2]) == []


def test_bad_input_is_said_before_work_is_done(raw, bench, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        ingest(tmp_path / "nothing", options=bench.options())
    with pytest.raises(NotFoundError, match="did you mean mecka"):
        ingest(bench.raw, options=IngestOptions("meca", bench.paths.root))
    with pytest.raises(SchemaError, match="--delivery"):
        bench(delivery="a/b")
    with pytest.raises(InputError, match="is the delivery itself"):
        ingest(bench.raw, options=IngestOptions("mecka", bench.raw))
    with pytest.raises(InputError, match="lies in the delivery"):
        ingest(bench.raw, options=IngestOptions("mecka", bench.raw / "new" / "store"))
    assert not bench.paths.root.exists()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        ingest(bench.raw, options=IngestOptions("mecka", blocked / "store"))


def test_command_line(raw, bench):
    cut(raw[IDS[1]])
    words = [str(bench.raw), "--vendor", "mecka", "--store", str(bench.paths.root), "--workers", "0"]
    assert run(cli, ["ingest", *words], program="egodata") == 1
    raw[IDS[1]].write()
    result = CliRunner().invoke(command, [*words, "--json"], standalone_mode=False)
    value = json.loads(result.stdout)
    assert value["counts"] == {"inputs": 3, "built": 1, "attached": 0, "set_aside": 0, "skipped": 2, "absent": 0}
    assert value["status"] == result.return_value == 0
    assert run(cli, ["ingest", *words, "--fail-on", "info"], program="egodata") == 0
    assert run(cli, ["ingest", *words[:2], "meca"], program="egodata") == 2
    reports = sorted((bench.paths.reports / "ingest").glob("raw-*.json"))
    assert len(reports) == 3 and json.loads(reports[-1].read_text())["counts"]["inputs"] == 3


def test_command_line_tables_name_what_was_set_aside(raw, bench):
    cut(raw[IDS[1]])
    result = CliRunner().invoke(
        command, [str(bench.raw), "--vendor", "mecka", "--store", str(bench.paths.root), "--workers", "0"], standalone_mode=False
    )
    assert IDS[1] in result.output and "video-unreadable" in result.output and "report: " in result.output


def test_one_damaged_episode_is_named_and_built_again_alone(raw, bench, capsys):
    bench()
    store = str(bench.paths.root)
    (bench.paths.episode_link(IDS[1]) / "zarr.json").write_text("[")
    assert run(cli, ["inspect", store], program="egodata") == 1
    out = capsys.readouterr().out
    assert IDS[0] in out and "2 episodes, " in out and f"episode {IDS[1]}: its zarr.json cannot be read" in out
    assert run(cli, ["verify", store], program="egodata") == 1 and "--force --only RECORDING" in capsys.readouterr().out
    words = [str(bench.raw), "--vendor", "mecka", "--store", store, "--workers", "0", "--force", "--only", IDS[1], "--json"]
    assert run(cli, ["ingest", *words], program="egodata") == 0
    assert json.loads(capsys.readouterr().out)["counts"]["inputs"] == 1
    assert run(cli, ["verify", store], program="egodata") == 0


@pytest.mark.realdata
def test_real_g1(shared_data: Path, tmp_path):
    report = ingest(shared_data / "lerobot_v21_g1", options=IngestOptions("lerobot", tmp_path / "store", dataset="g1", settings=FAST))
    assert counts(report) == (4, 0, 0, 96) and report.status == 0
    store = ZarrStore(StorePaths(tmp_path / "store"))
    assert store.episode_ids() == [f"lerobot-g1-{i:06d}" for i in (1, 2, 10, 29)]
    assert [store.open(identity).meta.total_frames for identity in store.episode_ids()] == [393, 343, 290, 221]

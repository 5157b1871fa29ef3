"""Ingest that knows its history: copies, declared hand frames, re-deliveries, damage, waivers, workers that hang."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from egodata.cli.main import cli, run
from egodata.errors import ConfigError, InputError
from egodata.findings import Finding, Severity, placed, worst
from egodata.findings.waivers import add_waiver, read_waivers, with_waivers
from egodata.formats.zarr import ZarrStore
from egodata.geometry.hand import convert_left_hand
from egodata.ingest import IngestOptions, discover, ingest
from egodata.ingest.build import Job
from egodata.ingest.declare import with_declared_frame
from egodata.ingest.run import _treat_all
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.vendors import SetAside, VendorOptions, get_vendor
from tests.unit.vendors.conftest import LeRobotFiles

from .conftest import FAST, IDS


def codes(report):
    return [finding.code for finding in report.findings if finding.severity > Severity.INFO]


def test_a_copy_is_read_instead_and_never_replaced(raw, bench, tmp_path):
    (bench.raw / "out").symlink_to(tmp_path)
    report = bench(copy=True)
    folder = bench.paths.raw / "mecka" / "raw"
    there = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert there == sorted(path.relative_to(bench.raw) for path in bench.raw.rglob("*") if path.is_file() and not path.is_symlink())
    assert report.copied == {
        "files": len(there),
        "bytes": sum((folder / path).stat().st_size for path in there),
        "present": 0,
        "refused": 1,
    }
    assert ZarrStore(bench.paths).open(IDS[0]).meta.provenance["source"]["uri"] == folder.as_uri()
    again = bench(copy=True)
    assert again.skipped == IDS and (again.copied["files"], again.copied["present"]) == (0, len(there))
    raw[IDS[0]].hands = raw[IDS[0]].hands.replace("0.4", "0.5", 1)
    raw[IDS[0]].write()
    with pytest.raises(InputError, match="other bytes under this name"):
        bench(copy=True)
    assert bench(copy=True, delivery="corrected").built == (IDS[0],)


def test_a_copy_of_some_leaves_the_others_out(raw, bench):
    bench(copy=True, only=(IDS[1],))
    assert [path.name for path in (bench.paths.raw / "mecka" / "raw").iterdir()] == [IDS[1]]


def test_declared_hand_frames(tmp_path):
    draft = small_draft(tmp_path, frames=30)
    unknown = replace(draft, meta=replace(draft.meta, hand_frame_convention="unknown"))
    with pytest.raises(SetAside, match="Say which with --declare"):
        with_declared_frame(unknown, None)
    same = with_declared_frame(unknown, "anat-v1")
    assert same.meta.hand_frame_convention == "anat-v1" and np.array_equal(
        same.arrays["left.obs_ee_pose"], draft.arrays["left.obs_ee_pose"], equal_nan=True
    )
    turned = with_declared_frame(unknown, "mirror-left-v1")
    valid = draft.arrays["left.obs_ee_pose_valid"]
    wanted = convert_left_hand(draft.arrays["left.obs_ee_pose"][valid], declared="mirror-left-v1", wanted="anat-v1")
    assert np.allclose(turned.arrays["left.obs_ee_pose"][valid], wanted, atol=1e-6)
    assert not np.allclose(turned.arrays["left.obs_ee_pose"][valid], draft.arrays["left.obs_ee_pose"][valid], atol=0.1)
    assert np.array_equal(turned.arrays["right.obs_ee_pose"], draft.arrays["right.obs_ee_pose"], equal_nan=True)
    assert with_declared_frame(draft, "mirror-left-v1").findings[-1].code == "declare-unused"


def test_a_declaration_that_is_not_used_is_said(raw, bench):
    with pytest.raises(ConfigError, match="did you mean anat-v1"):
        bench(declare="anat-v2")
    assert codes(bench(declare="mirror-left-v1")) == ["declare-unused"] * 3


def test_a_redelivery_without_a_name_keeps_the_dataset(raw, bench, tmp_path):
    bench(dataset="kitchen")
    raw[IDS[0]].hands = raw[IDS[0]].hands.replace("0.4", "0.5", 1)
    raw[IDS[0]].write()
    bench.raw.rename(tmp_path / "second")
    report = ingest(tmp_path / "second", options=bench.options())
    assert report.built == (IDS[0],) and report.skipped == IDS[1:]
    assert ZarrStore(bench.paths).open(IDS[0]).meta.dataset == "kitchen"
    assert ingest(tmp_path / "second", options=bench.options(dataset="hall")).built == IDS  # asked for, so it is done


def test_the_same_robot_data_under_a_new_name_is_said(tmp_path, video):
    for name in ("first", "second"):
        LeRobotFiles(tmp_path / name, video).write()
        report = ingest(tmp_path / name, options=IngestOptions("lerobot", tmp_path / "store", settings=FAST, workers=0))
    assert codes(report) == ["content-twice"] and "lerobot-first-000003" in report.findings[-1].message + report.findings[0].message


def test_a_skipped_episode_that_lost_bytes_is_built_again(raw, bench):
    bench()
    (path,) = bench.paths.episode_link(IDS[1]).glob("images.front_1/c/0")
    path.write_bytes(path.read_bytes()[:-1])
    report = bench()
    assert report.built == (IDS[1],) and report.skipped == (IDS[0], IDS[2])
    assert codes(report) == ["damage-repaired"] and "images.front_1/c/0" in report.findings[-1].message + report.findings[0].message
    assert bench().skipped == IDS


def test_changes_against_the_last_report(raw, bench):
    video = raw[IDS[1]].folder / f"{IDS[1]}_video.mp4"
    video.write_bytes(raw[IDS[1]].video[:900])
    assert bench().changes == {"sequence": 1, "partial": False, "since": None}
    raw[IDS[1]].write()
    raw[IDS[0]].hands = raw[IDS[0]].hands.replace("0.4", "0.5", 1)
    raw[IDS[0]].write()
    assert bench(only=(IDS[2],)).changes["gone"] == []  # a run over some of them says nothing of the others
    second = bench()
    assert second.changes["sequence"] == 2 and second.changes["new"] == second.changes["gone"] == []
    assert second.changes["bytes_changed"] == [IDS[0], IDS[1]] and second.changes["now_built"] == [IDS[1]]
    assert second.changes["findings_gone"] == {"video-unreadable": 1} and "hand-missing" not in second.changes["findings_new"]
    third = bench()
    assert [third.changes[name] for name in ("new", "gone", "bytes_changed", "now_built", "now_set_aside")] == [[], [], [], [], []]
    video.unlink()
    fourth = bench()
    assert fourth.changes["now_set_aside"] == [IDS[1]] == fourth.changes["bytes_changed"]
    assert fourth.changes["findings_new"] == {"file-missing": 1} and fourth.reasons == {"file-missing": 1}
    assert fourth.operators == {"aaaa00000000000000000001": {"built": 0, "attached": 0, "set_aside": 1, "skipped": 2}}


def finding(**more):
    return Finding("code", Severity.ERROR, "ep", "why", **more)


def test_waivers_are_appended_withdrawn_and_survive_a_kill(tmp_path):
    one, other = finding(stream="a"), finding(stream="b")
    add_waiver(tmp_path, one, reason="  seen,\n harmless ")
    add_waiver(tmp_path, other, reason="later")
    path = tmp_path / "waivers.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "cut sho')
    assert set(read_waivers(tmp_path)) == {one.id, other.id}
    add_waiver(tmp_path, other, reason="no more", withdrawn=True)
    assert [waiver.reason for waiver in read_waivers(tmp_path).values()] == ["seen, harmless"] and len(path.read_text().splitlines()) == 3
    marked = with_waivers([one, other], read_waivers(tmp_path))
    assert [item.waived for item in marked] == ["seen, harmless", ""] and worst(marked[:1]) is None and worst(marked) is Severity.ERROR
    assert placed([one], "bytes")[0].id != one.id == marked[0].id
    with pytest.raises(InputError, match="needs a reason"):
        add_waiver(tmp_path, one, reason=" ")
    path.write_bytes(b"[]\n" + path.read_bytes())
    with pytest.raises(InputError, match="line 1 is damaged"):
        read_waivers(tmp_path)


def test_a_waived_loss_no_longer_fails_and_new_bytes_need_a_new_decision(raw, bench, capsys):
    video = raw[IDS[1]].folder / f"{IDS[1]}_video.mp4"
    video.write_bytes(raw[IDS[1]].video[:900])
    report = bench()
    (error,) = [item for item in report.findings if item.severity is Severity.ERROR]
    store = str(bench.paths.root)
    assert report.status == 1 and run(cli, ["waive", store, error.id[:7], "--reason", "known loss"], program="egodata") == 0
    again = bench()
    assert again.status == 0 and again.set_aside == (IDS[1],)
    record = json.loads(bench.paths.quarantine("mecka", "raw", IDS[1]).read_text())
    assert record["findings"][0]["waived"] == "known loss"
    assert run(cli, ["waive", store], program="egodata") == 0 and "known loss" in capsys.readouterr().out
    assert run(cli, ["waive", store, "ffffffffffff", "--reason", "x"], program="egodata") == 2
    assert run(cli, ["waive", store, error.id], program="egodata") == 2
    assert run(cli, ["waive", store, error.id, "--reason", "found a copy", "--withdraw"], program="egodata") == 0
    assert bench().status == 1
    run(cli, ["waive", store, error.id, "--reason", "known loss"], program="egodata")
    video.write_bytes(raw[IDS[1]].video[:901])
    assert bench().status == 1


def job(bench, **more):
    paths = open_root(bench.paths.root, create=True)
    return Job(paths, VendorOptions("raw", "raw"), FAST, get_vendor("mecka").settings(VendorOptions("raw", "raw")), **more)


class _EndlessDetails(dict):
    """Keeps whatever process unpickles it for ever, as a decoder that spins would."""

    def __reduce__(self):
        return time.sleep, (3600,)


def test_a_reader_that_hangs_is_stopped_and_the_batch_goes_on(raw, bench):
    refs = discover(bench.raw, "mecka").recordings
    hung = replace(refs[1], details=_EndlessDetails(why="spins"))
    outcomes = {item.recording: item for item in _treat_all([refs[0], hung, refs[2]], job(bench, stall_s=4.0), workers=1)}
    assert {key: item.status for key, item in outcomes.items()} == {IDS[0]: "built", IDS[1]: "set_aside", IDS[2]: "built"}
    (error,) = outcomes[IDS[1]].findings
    assert error.code == "worker-stopped" and "no byte was read or written for 4 s" in error.message
    assert json.loads(bench.paths.quarantine("mecka", "raw", IDS[1]).read_text())["findings"][0]["code"] == "worker-stopped"


def test_text_without_a_utf8_form_is_written_as_an_escape():
    odd = Finding("odd", Severity.ERROR, IDS[0], "half a pair \udcff", stream="\udcff", expected="\ud800", got="x")
    assert odd.message == "half a pair \\udcff" and len(odd.id) == 12 and json.dumps(odd.to_json(), ensure_ascii=False).encode()

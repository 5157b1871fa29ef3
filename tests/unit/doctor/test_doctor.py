"""`egodata doctor` on deliveries and stores, and waivers wherever findings are shown."""

import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import egodata
from egodata.cli.main import cli, run
from egodata.doctor import examine_delivery
from egodata.doctor.delivery import job_for
from egodata.doctor.several import Place, find_deliveries
from egodata.errors import InputError
from egodata.findings import Severity
from egodata.ingest import discover
from egodata.reports.limits import Checks
from egodata.testing.world import WorldOptions, write_delivery
from tests.unit.ingest.conftest import IDS, bench, raw, video  # noqa: F401  fixtures
from tests.unit.vendors.conftest import LeRobotFiles, MeckaFiles


def doctor(capsys, *words):
    capsys.readouterr()
    status = run(cli, ["doctor", *map(str, words), "--json"], program="egodata")
    return status, json.loads(capsys.readouterr().out or "{}")


def cut(files):
    path = files.folder / f"{files.id}_video.mp4"
    path.write_bytes(files.video[:900])


def codes(value, episode=None):
    return {item["code"] for item in value["findings"] if episode in (None, item["episode"])}


def test_a_delivery_is_examined_and_not_touched(raw, bench, capsys):  # noqa: F811
    cut(raw[IDS[1]])
    before = sorted((path, path.stat().st_mtime_ns) for path in bench.raw.rglob("*"))
    status, value = doctor(capsys, bench.raw, "--workers", "0")
    assert status == 1 and value["verdict"] == "fail" and value["vendor"] == "mecka" and value["subjects"] == 3
    assert codes(value, IDS[1]) == {"video-unreadable"} and value["counts"]["error"] == 1 and value["left_out"] == []
    assert set(value["episodes"]) == {IDS[0], IDS[2]} and value["episodes"][IDS[0]]["frames"] == 12
    assert value["watch"][0]["subject"] == IDS[1] and value["watch"][0]["how"].startswith(str(bench.raw))
    assert before == sorted((path, path.stat().st_mtime_ns) for path in bench.raw.rglob("*"))
    raw[IDS[1]].write()
    status, value = doctor(capsys, bench.raw, IDS[1], "--workers", "0", "--no-pictures")
    assert status == 0 and value["subjects"] == 1 and value["left_out"] == ["pictures: frozen and black stretches"]


def test_one_recording_under_two_ids(raw, bench, capsys):  # noqa: F811
    status, value = doctor(capsys, bench.raw, "--workers", "0", "--fail-on", "warning")
    twins = [item for item in value["findings"] if item["code"] == "content-twice"]
    assert status == 1 and {(item["episode"], item["stream"]) for item in twins} == {
        (one, kind) for one in IDS for kind in ("numbers", "pictures")
    }
    bench()
    _, stored = doctor(capsys, bench.paths.root)
    assert {item["episode"] for item in stored["findings"] if item["code"] == "content-twice"} == set(IDS)


def test_a_recording_by_another_name_only_is_no_twin(tmp_path, video, capsys):  # noqa: F811
    for number, identity in enumerate(IDS[:2]):
        files = MeckaFiles(tmp_path / "raw", identity, video=video if number else video + b"\0\0\0\x08free")
        files.hands = files.hands.replace("0.4000000", f"0.40{number}0000")
        files.write()
    _, value = doctor(capsys, tmp_path / "raw", "--workers", "0")
    assert value["subjects"] == 2 and "content-twice" not in codes(value)


def test_the_same_finding_has_the_same_id_before_and_after_ingest(raw, bench, capsys):  # noqa: F811
    cut(raw[IDS[1]])
    _, before = doctor(capsys, bench.raw, "--workers", "0")
    bench()
    status, after = doctor(capsys, bench.paths.root)
    assert status == 1 and after["kind"] == "store" and after["subjects"] == 3
    assert {item["id"] for item in before["findings"] if item["code"] == "video-unreadable"} <= {item["id"] for item in after["findings"]}


def test_a_store_with_a_damaged_file_and_a_waived_finding(raw, bench, capsys):  # noqa: F811
    bench()
    (path,) = bench.paths.episode_link(IDS[0]).glob("obs_head_pose/c/0/0")
    path.write_bytes(path.read_bytes()[:-3])
    status, value = doctor(capsys, bench.paths.root)
    (damage,) = [item for item in value["findings"] if item["code"] == "files-damaged"]
    assert status == 1 and damage["episode"] == IDS[0] and "obs_head_pose" in damage["message"]
    store = str(bench.paths.root)
    for item in value["findings"]:
        if item["severity"] == "error":
            assert run(cli, ["waive", store, item["id"], "--reason", "only a test"], program="egodata") == 0
    status, value = doctor(capsys, store)
    assert status == 0 and value["counts"]["waived"] >= 1 and value["counts"]["error"] == 0
    assert {item["waived"] for item in value["findings"] if item["severity"] == "error"} == {"only a test"}
    assert not any(item["subject"] == IDS[0] and "obs_head_pose" in item["why"] for item in value["watch"])


def test_a_waiver_is_shown_by_validate_inspect_and_the_reports(raw, bench, capsys):  # noqa: F811
    invented = {"w": 1920, "h": 1080, "fl_x": 1920, "fl_y": 1920, "cx": 960, "cy": 540}
    (raw[IDS[0]].folder / "intrinsics.json").write_text(json.dumps(invented))
    bench()
    store = str(bench.paths.root)
    assert run(cli, ["validate", store, IDS[0]], program="egodata") == 1
    _, value = doctor(capsys, store, "--no-pictures")
    ids = {item["code"]: item["id"] for item in value["findings"] if item["episode"] == IDS[0]}
    for code in ("k-invented", "calibration-invented"):
        assert run(cli, ["waive", store, ids[code], "--reason", "a test rig"], program="egodata") == 0
    assert run(cli, ["validate", store, IDS[0]], program="egodata") == 0
    assert "[waived:" in capsys.readouterr().out
    assert run(cli, ["inspect", store, IDS[0], "--json"], program="egodata") == 0
    shown = {item["id"]: item["waived"] for item in json.loads(capsys.readouterr().out)["findings"]}
    assert shown[ids["k-invented"]] == "a test rig"
    assert {item.id: item.waived for item in bench().findings}[ids["calibration-invented"]] == "a test rig"


def test_every_delivery_in_a_folder_is_found_with_its_vendor(raw, bench, tmp_path, video):  # noqa: F811
    assert find_deliveries(bench.raw) == (Place(bench.raw, ("mecka",)),)
    LeRobotFiles(tmp_path / "arms", video).write()
    assert find_deliveries(tmp_path / "arms") == (Place(tmp_path / "arms", ("lerobot",)),)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither a store nor a delivery"):
        find_deliveries(tmp_path / "empty")
    for name in ("meta", "data", "videos"):  # two vendors' files side by side in one folder
        shutil.copytree(tmp_path / "arms" / name, bench.raw / name)
    assert find_deliveries(bench.raw) == (Place(bench.raw, ("lerobot",)), Place(bench.raw, ("mecka",)))


def test_deliveries_are_found_below_and_apart_from_those_of_a_reader_that_looks_deep(tmp_path):
    small = {"episodes": 2, "operators": 2, "size": (64, 64), "fps": 10, "seed": 1}
    for name, vendor in (("mon/aria", "aria"), ("mon/mecka", "mecka"), ("tue", "mecka"), ("eva", "eva")):
        write_delivery(tmp_path / name, WorldOptions(vendor=vendor, **small))
    sure = {"mon/aria": "aria", "mon/mecka": "mecka", "tue": "mecka"}
    places = tuple(Place(tmp_path / name, (vendor,)) for name, vendor in sure.items())
    assert find_deliveries(tmp_path) == (Place(tmp_path / "eva", ("egodex", "eva")), *places)
    shutil.copytree(tmp_path / "mon" / "aria", tmp_path / "tue" / "aria")
    assert set(find_deliveries(tmp_path)) >= {*places, Place(tmp_path / "tue" / "aria", ("aria",))}
    with pytest.raises(InputError, match="eva: can be read as egodex and as eva. Say which"):
        find_deliveries(tmp_path / "eva")


def test_a_folder_of_several_vendors_is_examined_whole(tmp_path, capsys):
    root = tmp_path / "of all vendors"
    small = {"episodes": 2, "operators": 2, "size": (64, 64), "fps": 10, "seed": 1}
    for vendor in ("aria", "mecka"):
        write_delivery(root / vendor, WorldOptions(vendor=vendor, fault="truncated-video:1" if vendor == "mecka" else None, **small))
    words = ["doctor", str(root), "--workers", "0", "--no-pictures"]
    assert run(cli, words, program="egodata") == 1
    out = capsys.readouterr().out
    assert "aria delivery" in out and "mecka delivery" in out and f"aria {root / 'aria'}: pass; mecka {root / 'mecka'}: fail" in out
    assert run(cli, ["doctor", str(root / "aria"), "--workers", "0", "--no-pictures"], program="egodata") == 0  # a pass hides no fail
    write_delivery(root / "eva", WorldOptions(vendor="eva", **small))
    status, value = doctor(capsys, *words[1:])
    assert (status, value["kind"], value["verdict"]) == (1, "deliveries", "fail")
    assert [(found["vendor"], found["subjects"]) for found in value["deliveries"]] == [("aria", 2), ("mecka", 2)]
    assert value["not_looked_at"] == [{"path": str(root / "eva"), "vendors": ["egodex", "eva"]}]
    assert run(cli, words, program="egodata") == 1
    assert f"Say which: egodata doctor '{root / 'eva'}' --vendor egodex" in capsys.readouterr().out
    assert run(cli, [*words, "--dataset", "mine"], program="egodata") == 2
    assert "holds 3 deliveries, and --dataset goes with one of them" in capsys.readouterr().err


def test_a_folder_that_cannot_be_opened_is_named_and_stops_nothing(raw, bench, capsys):  # noqa: F811
    closed = bench.raw.parent / "both" / "closed"
    shutil.copytree(bench.raw, closed.parent / "open")
    closed.mkdir()
    assert run(cli, ["doctor", str(closed.parent), "--no-pictures", "--workers", "0"], program="egodata") == 0
    with unreadable(closed):
        assert find_deliveries(closed.parent) == (Place(closed, ()), Place(closed.parent / "open", ("mecka",)))
        status, value = doctor(capsys, closed.parent, "--workers", "0", "--no-pictures")
    assert (status, value["not_looked_at"]) == (1, [{"path": str(closed), "vendors": []}])
    assert [found["verdict"] for found in value["deliveries"]] == ["pass"]


@contextmanager
def unreadable(folder):
    """Take away the permission to open a folder, also from root; what lies around it, and the code, stays readable."""
    root = os.geteuid() == 0
    needed = {parent for path in (folder, Path(egodata.__file__), Path(sys.prefix) / "lib") for parent in path.parents}
    private = [path for path in needed if root and not path.stat().st_mode & 0o001]
    modes = {path: path.stat().st_mode for path in (folder, *private)}
    for path in private:
        path.chmod(0o755)
    folder.chmod(0)
    try:
        if root:
            os.seteuid(65534)
        yield
    finally:
        if root:
            os.seteuid(0)
        for path, mode in modes.items():
            path.chmod(mode)


def test_tables_for_people(raw, bench, capsys):  # noqa: F811
    cut(raw[IDS[2]])
    assert run(cli, ["doctor", str(bench.raw), "--workers", "0"], program="egodata") == 1
    out = capsys.readouterr().out
    assert "Keypoints in the picture" in out and "100.0%" in out
    assert "Watch these" in out and "video-unreadable" in out and "mecka delivery" in out and "3 examined" in out
    assert run(cli, ["doctor", str(bench.raw), "nobody"], program="egodata") == 2


class _Endless(dict):
    def __reduce__(self):
        return time.sleep, (3600,)


@pytest.mark.slow
def test_a_reader_that_hangs_costs_its_own_recording(raw, bench, monkeypatch):  # noqa: F811
    job = replace(job_for(bench.raw, vendor="mecka"), stall_s=4.0)
    discovered = discover(bench.raw, "mecka")
    hung = replace(discovered, recordings=(discovered.recordings[0], replace(discovered.recordings[1], details=_Endless(a=1))))
    source = type("Source", (), {"discover": lambda *_: hung})
    monkeypatch.setattr("egodata.doctor.delivery.get_source", lambda name: source)
    report = examine_delivery(bench.raw, job=job, vendor="mecka", checks=Checks(), workers=1)
    assert [item.subject for item in report.examined] == list(IDS[:2])
    assert {item.code for item in report.findings if item.severity is Severity.ERROR} == {"worker-stopped"} and report.status == 1

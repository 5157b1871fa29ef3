"""After an upgrade: what is older is named, rebuilt from its delivery, and nothing that a dataset recorded is touched."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

from egodata.catalog import DatasetRule, freeze, load_dataset
from egodata.catalog.withdrawn import withdraw
from egodata.cli.main import cli, run
from egodata.config import config_root
from egodata.errors import InputError
from egodata.formats import open_store
from egodata.formats.lance import build_lance
from egodata.formats.zarr import verify_episode
from egodata.formats.zarr.publish import stored_meta
from egodata.formats.zarr.versions import list_versions
from egodata.ingest import IngestOptions, ingest
from egodata.ingest.build import chosen_digest
from egodata.ingest.clips import ClipRule
from egodata.ingest.forgotten import remember_forgotten
from egodata.ingest.ledger import read_entry, write_entry
from egodata.ingest.migration import BLOCKED, CURRENT, NEWER, OUTDATED, Given, plan_migration, run_migration
from egodata.schema.layout import ALGORITHMS, open_root, read_marker, write_marker
from egodata.vendors.configured import ConfiguredVendor
from egodata.vendors.mecka import VENDOR
from egodata.video import PROFILES

from .conftest import IDS
from .earlier import AS_IT_WAS, CONVERTER, earlier

NOW = f"mecka/{VENDOR.version}"


@pytest.fixture
def old(raw, bench, monkeypatch):
    """A store whose first two recordings an earlier converter made, with a dataset of both kinds on both formats."""
    with monkeypatch.context() as patch:
        patch.setattr(CONVERTER, earlier())
        bench(only=IDS[:2])
    bench(only=IDS[2:])
    build_lance(bench.paths)
    freeze(bench.paths, DatasetRule(name="before", heads=("train",), valid_ratio=0.0), version="v1")
    return bench


def planned(bench, **more):
    return plan_migration(bench.paths, **{"given": Given(), **more})


def states(plan):
    return {item.entry.recording: item.state for item in plan.recordings}


def files(paths):
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in sorted(paths.root.rglob("*"))}


def contents(bench, format="zarr"):
    store = open_store(bench.paths, format)
    return {name: store.open(name).digests.content for name in store.episode_ids()}


def command(bench, *words, capsys):
    status = run(cli, ["migrate", str(bench.paths.root), *words], program="egodata")
    return status, capsys.readouterr()


def test_a_dry_run_names_exactly_what_is_older_and_changes_nothing(old, capsys):
    before = files(old.paths)
    status, said = command(old, "--dry-run", "--json", capsys=capsys)
    found = json.loads(said.out)
    assert status == found["status"] == 1 and found["done"] is None
    told = {item["recording"]: (item["state"], item["reasons"], item["blocked"]) for item in found["recordings"]}
    why = [f"converter mecka/1 -> {NOW}"]
    assert told == {IDS[0]: (OUTDATED, why, ""), IDS[1]: (OUTDATED, why, ""), IDS[2]: (CURRENT, [], "")}
    assert found["deliveries"] == [{"vendor": "mecka", "delivery": "raw", "current": 1, "outdated": 2, "cannot_be_rebuilt": 0, "newer": 0}]
    (dataset,) = found["datasets"]
    assert dataset == {
        "dataset": "before@v1", "state": "works", "formats": {"zarr": "", "lance": ""}, "episodes": 3, "outdated": 2, "why": "",
    }  # fmt: skip
    assert found["unlisted"] == found["damaged"] == found["statistics"] == []
    assert not any(part["behind"] for part in found["store"].values()) and found["store"]["lance_storage_version"]["here"]
    again = json.loads(command(old, "--dry-run", "--json", capsys=capsys)[1].out)
    assert again == found and files(old.paths) == before
    status, said = command(old, "--dry-run", capsys=capsys)
    assert status == 1 and "2 recordings would be rebuilt, 0 are outdated and cannot be; nothing was changed" in said.out
    assert "keeps working on zarr and lance" in said.out and "a new version of a dataset is needed" in said.out
    assert files(old.paths) == before


def test_only_what_is_older_is_rebuilt_and_a_dataset_keeps_what_it_recorded(old, capsys):
    before, manifest = contents(old), load_dataset(old.paths, "before@v1")
    frozen = old.paths.manifest("before", "v1").read_bytes()
    status, said = command(old, "--workers", "0", capsys=capsys)
    assert status == 0 and "2 recordings rebuilt" in said.out and "`egodata lance build`" in said.out
    (page,) = set((old.paths.reports / "ingest").glob("*.html"))
    assert all(name in page.read_text() for name in IDS[:2]) and IDS[2] not in page.read_text()
    after = contents(old)
    assert {name for name in IDS if after[name] != before[name]} == set(IDS[:2])
    assert [len(list_versions(old.paths, name)) for name in IDS] == [2, 2, 1]
    assert [read_entry(old.paths, name).converter for name in IDS] == [NOW] * 3
    built = build_lance(old.paths)
    assert (built.added, built.changed, built.unchanged) == (0, 2, 1) and contents(old, "lance") == after
    assert old.paths.manifest("before", "v1").read_bytes() == frozen
    for format in ("zarr", "lance"):
        load_dataset(old.paths, "before@v1", format=format, sample=None)
        store = open_store(old.paths, format, versions=manifest.lance_versions)
        opened = {one.episode_id: store.open(one.episode_id, content=one.content) for one in manifest.head("train")}
        assert {name: reader.meta.task_description for name, reader in opened.items() if name in IDS[:2]} == dict.fromkeys(
            IDS[:2], AS_IT_WAS
        )
        assert {name: reader.digests.content for name, reader in opened.items()} == before
    kept = files(old.paths)
    status, said = command(old, capsys=capsys)
    assert status == 0 and "nothing to do" in said.out and files(old.paths) == kept
    assert command(old, "--dry-run", capsys=capsys)[0] == 0
    assert len(old().skipped) == 3  # ingest agrees


def test_equal_content_from_a_new_converter_stays_one_version(raw, bench, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(CONVERTER, replace(VENDOR, version=1))
        bench()
    before = contents(bench)
    assert "3 recordings rebuilt (3 with equal content)" in command(bench, "--workers", "0", capsys=capsys)[1].out
    assert contents(bench) == before and [len(list_versions(bench.paths, name)) for name in IDS] == [1, 1, 1]
    assert "nothing to do" in command(bench, "--dry-run", capsys=capsys)[1].out


def test_what_cannot_be_rebuilt_is_named_with_its_reason(old, raw, capsys):
    shutil.rmtree(raw[IDS[0]].folder)
    raw[IDS[1]].hands += "\n"
    raw[IDS[1]].write()
    status, said = command(old, "--dry-run", "--json", capsys=capsys)
    why = {item["recording"]: item["blocked"] for item in json.loads(said.out)["recordings"] if item["state"] == BLOCKED}
    assert status == 1 and set(why) == set(IDS[:2])
    assert "does not hold it any more" in why[IDS[0]]
    assert "have changed since (media)" in why[IDS[1]] and "egodata ingest" in why[IDS[1]]
    before = contents(old)
    status, said = command(old, "--json", "--workers", "0", capsys=capsys)
    done = json.loads(said.out)["done"]
    assert status == 1 and done["rebuilt"] == {} and list(done["set_aside"]) == [IDS[1]] and not done["marked"]
    assert done["set_aside"][IDS[1]].startswith("raw-changed: ") and contents(old) == before
    assert old().status == 0 and contents(old)[IDS[1]] != before[IDS[1]]  # ingest takes the new bytes
    shutil.rmtree(old.raw)
    (blocked,) = planned(old).of(BLOCKED)
    assert blocked.entry.recording == IDS[0] and "is gone" in blocked.blocked


def test_what_was_forgotten_is_not_built_again(old):
    remember_forgotten(old.paths, recordings=[IDS[0]], operators=[])
    plan = planned(old)
    assert states(plan) == {IDS[0]: BLOCKED, IDS[1]: OUTDATED, IDS[2]: CURRENT}
    assert "was forgotten on request" in plan.of(BLOCKED)[0].blocked


def test_a_copied_delivery_is_found_in_a_store_that_moved(raw, bench, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(CONVERTER, earlier())
        bench(copy=True)
    shutil.rmtree(bench.raw)
    moved = bench.paths.root.rename(bench.paths.root.with_name("moved"))
    paths = open_root(moved)
    plan = plan_migration(paths, given=Given())
    assert len(plan.of(OUTDATED)) == 3 and len(run_migration(paths, plan, workers=0).rebuilt) == 3
    assert plan_migration(paths, given=Given()).behind is False


def test_limit_and_vendor_leave_the_rest_and_store_json(old, capsys):
    write_marker(old.paths, {"store_schema": 1, "episode_schema": "v4.0", "lance_storage_version": "2.2"})
    status, said = command(old, "--limit", "1", "--workers", "0", capsys=capsys)
    assert status == 1 and "1 recordings rebuilt, 1 left for another call" in said.out and "store.json stays as it is" in said.out
    assert "algorithms" not in read_marker(old.paths) and states(planned(old))[IDS[0]] == CURRENT
    status, said = command(old, "--vendor", "mecka", "--workers", "0", capsys=capsys)
    assert status == 0 and read_marker(old.paths) == {
        "store_schema": 1, "episode_schema": "v4.0", "lance_storage_version": "2.2", "algorithms": ALGORITHMS,
    }  # fmt: skip
    status, said = command(old, "--vendor", "scale", capsys=capsys)
    assert status == 2 and "no recording of vendor scale was ingested; vendors are mecka" in said.err
    assert command(old, "--config", "mecka", capsys=capsys)[0] == 2


def test_store_json_alone_can_be_behind(raw, bench, capsys):
    bench()
    write_marker(bench.paths, {"store_schema": 1, "episode_schema": "v4.0"})
    assert command(bench, "--dry-run", capsys=capsys)[0] == 1
    assert command(bench, capsys=capsys)[0] == 0 and read_marker(bench.paths)["algorithms"] == ALGORITHMS
    assert command(bench, "--dry-run", capsys=capsys)[0] == 0


def test_a_newer_store_is_refused_and_newer_recordings_stay(raw, bench, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(CONVERTER, earlier(version=99))
        bench()
    plan = planned(bench)
    assert set(states(plan).values()) == {NEWER} and not plan.behind and run_migration(bench.paths, plan).rebuilt == {}
    for newer, text in (
        ({"algorithms": {**ALGORITHMS, "digests": 2}}, "its digests are of algorithm 2, this egodata knows up to 1"),
        ({"algorithms": {"unheard": 1}}, "its unheard are of algorithm 1, this egodata knows up to 0"),
        ({"episode_schema": "v4.1"}, "holds episodes of schema v4.1, this egodata reads up to v4.0"),
    ):
        write_marker(bench.paths, {"store_schema": 1, **newer})
        with pytest.raises(InputError, match=text):
            open_root(bench.paths.root)


def own_config(tmp_path, **changed):
    values = yaml.safe_load((config_root() / "vendors" / "mecka.yaml").read_text())
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**values, **changed}))
    return path


def earlier_ledger(bench, *, names=IDS):
    """Take from the ledger what an egodata before this one did not keep."""
    for name in names:
        write_entry(bench.paths, replace(read_entry(bench.paths, name), choices={}))


@pytest.mark.parametrize("kept", [True, False], ids=["recorded", "not recorded"])
def test_the_settings_of_a_build_are_honoured(raw, bench, monkeypatch, tmp_path, capsys, kept):
    config = own_config(tmp_path, stored_size_px=[48, 28])
    clips = ClipRule(ranges={IDS[1]: ((0, 5), (5, 12))})
    with monkeypatch.context() as patch:
        patch.setattr(CONVERTER, earlier())
        bench(config=str(config), clips=clips, settings=PROFILES["swift"], declare="anat-v1")
    names = sorted(contents(bench))
    words = ["--workers", "0"]
    if not kept:
        earlier_ledger(bench)
        plan = planned(bench)
        assert set(states(plan).values()) == {BLOCKED} and all("--config FILE" in item.blocked for item in plan.recordings)
        (tmp_path / "clips.yaml").write_text(yaml.safe_dump({"ranges": {IDS[1]: [[0, 5], [5, 12]]}}))
        words += ["--vendor", "mecka", "--config", str(config), "--clips", str(tmp_path / "clips.yaml")]
    assert command(bench, *words, capsys=capsys)[0] == 0
    assert sorted(contents(bench)) == names == [IDS[0], f"{IDS[1]}-c0-5", f"{IDS[1]}-c5-12", IDS[2]]
    for name in names:
        reader = open_store(bench.paths, "zarr").open(name)
        assert reader.meta.task_description != AS_IT_WAS and verify_episode(bench.paths, name) == []
        assert reader.video_info("front_1").width == 48 and reader.meta.processing["encode"]["profile"] == "swift"
    assert planned(bench).behind is False  # and now the ledger knows, without --config and --clips
    config.unlink()
    plan = planned(bench)
    assert plan.behind is False and "is gone. Give --config FILE" in plan.recordings[0].note


def test_an_episode_that_a_later_build_kept_does_not_mislead(raw, bench, tmp_path):
    bench(settings=PROFILES["compact"])
    clear = replace(read_entry(bench.paths, IDS[0]), choices={})
    config = own_config(tmp_path, trim_tail_frames=2)
    bench(config=str(config), settings=PROFILES["compact"])  # equal content: the episodes still tell of the first build
    earlier_ledger(bench)
    assert read_entry(bench.paths, IDS[0]).settings != clear.settings
    plan = planned(bench)
    assert plan.behind is False and "Give --clips FILE where it was cut" in plan.recordings[0].note
    plan = planned(bench, given=Given(str(config)))
    assert plan.behind is False and [item.note for item in plan.recordings] == ["", "", ""]
    write_entry(bench.paths, replace(read_entry(bench.paths, IDS[0]), converter="mecka/1"))
    assert states(planned(bench))[IDS[0]] == BLOCKED
    plan = planned(bench, given=Given(str(config)))
    assert list(run_migration(bench.paths, plan, workers=0).rebuilt) == [IDS[0]]
    assert read_entry(bench.paths, IDS[0]).choices["vendor"]["trim_tail_frames"] == 2


def test_a_recording_that_was_cut_is_not_rebuilt_whole(raw, bench, monkeypatch, tmp_path):
    rule = ClipRule(ranges={IDS[0]: ((0, 6),)})
    with monkeypatch.context() as patch:
        patch.setattr(CONVERTER, earlier())
        bench(only=IDS[:1], clips=rule)
    earlier_ledger(bench, names=IDS[:1])
    for given in (Given(), Given("mecka")):
        (item,) = planned(bench, given=given).recordings
        assert item.state == BLOCKED and "Give --clips FILE where it was cut" in item.blocked
    plan = planned(bench, given=Given(clips=rule))
    assert list(run_migration(bench.paths, plan, workers=0).rebuilt[IDS[0]]) == [f"{IDS[0]}-c0-6"]


def test_an_own_config_that_nothing_records_stays_valid_until_something_is_older(raw, bench, monkeypatch, tmp_path):
    config = own_config(tmp_path, head_jump_m=0.5)
    bench(config=str(config))
    earlier_ledger(bench)
    plan = planned(bench)
    assert plan.behind is False and "nothing says which file it was" in plan.recordings[0].note
    reset = planned(bench, given=Given("mecka"))
    assert reset.of(OUTDATED)[0].reasons == ("mecka config: head_jump_m 0.5 -> 0.3",)
    later = planned(bench, given=Given(str(config)))
    assert later.behind is False and later.recordings[0].note == ""
    bench(config=str(config))  # an ingest that skips writes down what it knows
    assert planned(bench).recordings[0].note == ""


def test_a_changed_shipped_config_or_profile_is_a_reason(raw, bench, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(PROFILES, "test", replace(PROFILES["swift"], profile="test", crf=20.0))
        shipped = ConfiguredVendor.settings
        patch.setattr(ConfiguredVendor, "settings", lambda self, options: {**shipped(self, options), "head_jump_m": 0.9})
        bench(settings=PROFILES["test"])
    monkeypatch.setitem(PROFILES, "test", replace(PROFILES["swift"], profile="test", preset="ultrafast"))
    plan = planned(bench)
    assert plan.of(OUTDATED)[0].reasons == (
        "mecka config: head_jump_m 0.9 -> 0.3",
        'encoder profile test: crf 20 -> 17.5, preset "veryfast" -> "ultrafast"',
    )
    run_migration(bench.paths, plan, workers=0)
    assert planned(bench).behind is False
    assert open_store(bench.paths, "zarr").open(IDS[0]).meta.processing["encode"]["preset"] == "ultrafast"


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"digests": 0}, f"digest algorithm 0 -> {ALGORITHMS['digests']}"),
        ({"x264": "keyint=12:min-keyint=12:scenecut=0"}, "encoder parameters: "),
    ],
)
def test_what_the_settings_digest_does_not_cover_is_seen_and_rebuilt(raw, bench, choices, reason):
    bench()
    entry = read_entry(bench.paths, IDS[1])
    assert chosen_digest(entry.choices) == entry.settings
    write_entry(bench.paths, replace(entry, choices={**entry.choices, **choices}))
    plan = planned(bench)
    (outdated,) = plan.of(OUTDATED)
    assert outdated.entry.recording == IDS[1] and outdated.reasons[0].startswith(reason)
    assert list(run_migration(bench.paths, plan, workers=0).rebuilt) == [IDS[1]]
    assert planned(bench).behind is False


def test_episodes_of_an_older_schema_and_those_of_no_entry(raw, bench, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr("egodata.formats.zarr.publish.stored_meta", older_schema)
        bench()
    (bench.paths.ledger / "ingest" / f"{IDS[2]}.json").unlink()
    (bench.paths.ledger / "ingest" / f"{IDS[1]}.json").write_text("{")
    plan = planned(bench)
    assert plan.of(OUTDATED)[0].reasons == ("episode schema v3.9 -> v4.0",)
    assert [(item.episode_id, item.reason) for item in plan.unlisted] == [(name, "episode schema v3.9 -> v4.0") for name in IDS[1:]]
    assert f"made by {NOW} from file://" in plan.unlisted[0].note and "ledger" in plan.damaged[0]
    status, said = command(bench, "--json", "--workers", "0", capsys=capsys)
    done = json.loads(said.out)["done"]
    assert status == 1 and list(done["rebuilt"]) == [IDS[0]] and done["set_aside"] == {}  # a damaged entry of another stops nothing
    (bench.paths.ledger / "ingest" / f"{IDS[1]}.json").unlink()
    status, said = command(bench, "--workers", "0", capsys=capsys)
    assert status == 1 and "nothing rebuilds them" in said.out
    assert planned(bench).of(OUTDATED) == ()


def older_schema(meta, cameras, *, settings):
    return replace(stored_meta(meta, cameras, settings=settings), schema_version="v3.9")


def test_datasets_that_are_withdrawn_or_lack_something_are_told_apart(old, capsys):
    freeze(old.paths, DatasetRule(name="gone", heads=("train",), valid_ratio=0.0), version="v1")
    withdraw(old.paths.manifest("gone", "v1"), episodes=1, created="now")
    shutil.rmtree(old.paths.lance)
    (standing,) = [item for item in planned(old).datasets if item.ref == "before@v1"]
    assert standing.state == "works" and standing.formats == {"zarr": "", "lance": "no Lance copy"}
    shutil.rmtree(list_versions(old.paths, IDS[2])[0].folder)
    plan = planned(old)
    assert {item.ref: item.state for item in plan.datasets} == {"before@v1": "lacks", "gone@v1": "withdrawn"}
    assert f"1 of its contents are gone: {IDS[2]} (train, content" in plan.datasets[0].formats["zarr"]
    assert [item.entry.recording for item in plan.of(BLOCKED)] == [IDS[2]] and "egodata ingest" in plan.of(BLOCKED)[0].blocked
    old.paths.manifest("before", "v1").write_text("{")
    assert planned(old).datasets[0].state == "unreadable"


def test_statistics_of_another_algorithm_are_named(old, capsys):
    folder = old.paths.norm_stats("before", "v1")
    folder.mkdir(parents=True)
    (folder / "0123456789abcdef.json").write_text(json.dumps({"key": "0" * 64, "train_digest": "a", "recipe_digest": "b"}))
    assert "another algorithm than exact-1; computed again when they are asked for" in command(old, "--dry-run", capsys=capsys)[1].out


def test_a_folder_of_old_groups_is_read_in_place(tmp_path, capsys):
    group = tmp_path / "v3" / "a.zarr"
    group.mkdir(parents=True)
    (group / "zarr.json").write_text(json.dumps({"node_type": "group", "attributes": {"total_frames": 3}}))
    assert run(cli, ["migrate", str(tmp_path / "v3"), "--dry-run"], program="egodata") == 1
    assert "read in place" in capsys.readouterr().out
    assert run(cli, ["migrate", str(tmp_path), "--dry-run"], program="egodata") == 2


KILLED = """
import os, signal, sys
from pathlib import Path
import egodata.ingest.build as build
import egodata.formats.zarr.publish as publish
from egodata.ingest.migration import Given, plan_migration, run_migration
from egodata.schema.layout import open_root

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

where, paths = sys.argv[1], open_root(Path(sys.argv[2]))
if where == "before the ledger":
    build.write_entry = die
if where == "before the link":
    publish.on_disk.point_link = die
if where == "within the build":
    publish._finish_group = die
run_migration(paths, plan_migration(paths, given=Given()), workers=0, on_outcome=die if where == "between recordings" else None)
"""


@pytest.mark.parametrize("where", ["within the build", "before the link", "before the ledger", "between recordings"])
def test_killed_in_the_middle_it_goes_on(old, where, capsys):
    before = contents(old)
    words = [sys.executable, "-c", KILLED, where, str(old.paths.root)]
    killed = subprocess.run(words, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ready = 1 if where == "between recordings" else 2
    assert len(planned(old).of(OUTDATED)) == ready and len(contents(old)) == 3
    load_dataset(old.paths, "before@v1", format="zarr", sample=None)
    assert command(old, "--workers", "0", capsys=capsys)[0] == 0
    after = contents(old)
    assert {name for name in IDS if after[name] != before[name]} == set(IDS[:2])
    assert [verify_episode(old.paths, name) for name in IDS] == [[], [], []]
    assert [len(list_versions(old.paths, name)) for name in IDS] == [2, 2, 1]
    assert command(old, "--dry-run", capsys=capsys)[0] == 0
    load_dataset(old.paths, "before@v1", format="zarr", sample=None)


def test_one_that_fails_is_set_aside_and_the_others_go_on(old, monkeypatch, capsys):
    before = contents(old)
    raw_video = old.raw / IDS[0] / f"{IDS[0]}_video.mp4"
    entry = read_entry(old.paths, IDS[0])
    raw_video.write_bytes(raw_video.read_bytes()[:500])
    changed = ingest(old.raw, options=IngestOptions("mecka", old.paths.root, only=(IDS[0],), workers=0))
    assert changed.set_aside == (IDS[0],)
    files_now = next(item for item in changed.outcomes if item.recording == IDS[0])
    write_entry(old.paths, replace(entry, raw=files_now.raw))  # as if it had been built from these very bytes
    status, said = command(old, "--workers", "1", capsys=capsys)
    assert status == 1 and "1 recordings rebuilt, 1 failed" in said.out and "video-unreadable" in said.out
    after = contents(old)
    assert after[IDS[0]] == before[IDS[0]] and after[IDS[1]] != before[IDS[1]]
    assert command(old, "--dry-run", capsys=capsys)[0] == 1

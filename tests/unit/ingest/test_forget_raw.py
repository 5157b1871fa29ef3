"""Of a copied delivery only the raw files of who is forgotten go; those of others stay byte for byte, and what both use is named."""

import json

import pytest

from egodata.cli.main import cli, run
from egodata.errors import InputError
from egodata.formats import open_store
from egodata.ingest import IngestOptions, forget as forgetting, ingest
from egodata.ingest.clips import ClipRule
from egodata.ingest.forget import forget_episodes
from egodata.schema.layout import StorePaths, open_root
from egodata.testing.drafts import moving_frames, write_source
from tests.unit.vendors.conftest import FRAMES, SIZE, LeRobotFiles, MeckaFiles
from tests.unit.vendors.test_lerobot_v3 import TOTAL, V3Files

from .conftest import FAST, IDS

ARMS = tuple(f"lerobot-arms-{index:06d}" for index in range(3))


@pytest.fixture(scope="module")
def sixty(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("v3") / "video.mp4", moving_frames(TOTAL, SIZE, 8)).read_bytes()


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """One of its own for every recording: what is forgotten is looked for by its footage."""
    folder = tmp_path_factory.mktemp("videos")
    return [write_source(folder / f"{seed}.mp4", moving_frames(FRAMES, SIZE, seed)).read_bytes() for seed in range(len(IDS))]


@pytest.fixture
def raw(tmp_path, videos):
    return {name: MeckaFiles(tmp_path / "raw", name, video=video).write() for name, video in zip(IDS, videos, strict=True)}


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without(before, *starts):
    return {name: data for name, data in before.items() if not name.startswith(starts)}


def take(folder, store, vendor="mecka", **more):
    report = ingest(folder, options=IngestOptions(vendor, store.root, **{"workers": 0, "settings": FAST, "copy": True, **more}))
    assert not report.set_aside
    return report


def forget(store, *words, capsys, status):
    assert run(cli, ["forget", str(store.root), "--yes", *words], program="egodata") == status
    return capsys.readouterr().out


@pytest.fixture
def store(request, tmp_path):
    return StorePaths(tmp_path / getattr(request, "param", "store"))


by_any_name = pytest.mark.parametrize("store", ["store", "lager ü 100%25 #1"], indirect=True)
"""The ledger keeps URIs, where such a path is percent-encoded."""


@pytest.fixture
def arms(tmp_path, sixty):
    """A LeRobot v3 dataset of three episodes in one parquet and one video file per camera."""
    return V3Files(tmp_path / "arms", sixty).write().root


@by_any_name
def test_one_of_a_copied_delivery_goes_and_the_others_build_again(raw, bench, store, capsys):
    (bench.raw / IDS[1] / "vorschau ü.jpg").write_bytes(b"a picture of the subject")
    take(bench.raw, store)
    folder = store.raw / "mecka" / "raw"
    before = files(folder)
    said = forget(store, "--episode", IDS[1], "--json", capsys=capsys, status=0)
    assert files(folder) == without(before, IDS[1]) and not (folder / IDS[1]).exists()
    done = json.loads(said)
    assert done["removed"]["raw"] == len(before) - len(files(folder)) == 7
    assert done["raw_shared"] == done["raw_unread"] == done["raw_outside"] == []
    assert take(folder, store, force=True, delivery="raw", dataset="raw").built == (IDS[0], IDS[2])
    assert not list(store.ledger.glob("*.pending"))


def test_nothing_of_who_was_forgotten_comes_back_with_a_copy(raw, bench, store):
    (bench.raw / IDS[1] / "preview.jpg").write_bytes(b"a picture of the subject")
    (bench.raw / IDS[0] / "preview.jpg").write_bytes(b"a picture of another")
    take(bench.raw, store)
    forget_episodes(open_root(store.root), episode_id=IDS[1])
    before = files(store.raw)
    again = take(bench.raw, store)
    assert files(store.raw) == before and again.copied["present"] == len(before)


def test_an_operator_goes_with_all_recordings_also_those_never_built(tmp_path, videos, store):
    for identity, user, video in zip(IDS, ("person1", "person1", "person2"), videos, strict=True):
        MeckaFiles(tmp_path / "raw", identity, video=video, info={"user_id": user}).write()
    never = "5f0c00000000000000000009"
    MeckaFiles(tmp_path / "raw", never, video=b"damaged", info={"user_id": "person1"}).write()
    report = ingest(tmp_path / "raw", options=IngestOptions("mecka", store.root, workers=0, settings=FAST, copy=True))
    assert report.set_aside == (never,)
    folder = store.raw / "mecka" / "raw"
    before = files(folder)
    done = forget_episodes(open_root(store.root), operator="mecka/person1")
    assert files(folder) == without(before, *IDS[:2], never) and [path.name for path in folder.iterdir()] == [IDS[2]]
    assert done.episodes == IDS[:2] and done.complete
    assert forget_episodes(open_root(store.root), operator="mecka/person2").complete
    assert not folder.exists(), "folders that are left empty go too"


def test_a_list_that_names_all_is_reported_and_asking_again_says_when_it_is_gone(raw, bench, store, capsys):
    (bench.raw / "recordings.json").write_text(json.dumps(IDS))
    take(bench.raw, store)
    folder = store.raw / "mecka" / "raw"
    before = files(folder)
    for _ in range(2):
        done = json.loads(forget(store, "--episode", IDS[0], "--json", capsys=capsys, status=1))
        assert done["raw_shared"] == ["raw/mecka/raw/recordings.json"] and files(folder) == without(before, IDS[0])
        assert IDS[0] not in "".join(path.read_text() for path in store.ledger.glob("*.*"))
    (folder / "recordings.json").unlink()
    assert json.loads(forget(store, "--episode", IDS[0], "--json", capsys=capsys, status=0))["raw_shared"] == []
    assert forget_episodes(open_root(store.root), episode_id=IDS[1]).complete


@by_any_name
def test_files_that_several_episodes_share_stay_and_are_named(arms, store, capsys):
    take(arms, store, "lerobot")
    folder = store.raw / "lerobot" / "arms"
    before = files(folder)
    status = run(cli, ["forget", str(store.root), "--yes", "--episode", ARMS[1]], program="egodata")
    assert files(folder) == before and status == 1
    said = capsys.readouterr().out
    assert all(f"others use it too or may: raw/lerobot/arms/{name}\n" in said for name in before)
    assert f"{len(before)} such raw files still hold the subject, or may. Ask the vendor for a delivery without it" in said
    assert take(folder, store, "lerobot", force=True, dataset="arms").built == (ARMS[0], ARMS[2])
    done = forget_episodes(open_root(store.root), episode_id=ARMS[0])
    assert sorted(done.raw_shared) == sorted(f"raw/lerobot/arms/{name}" for name in before)
    last = forget_episodes(open_root(store.root), episode_id=ARMS[2])
    assert last.removed["raw"] == 3 and set(files(folder)) == {name for name in before if name.startswith("meta/")}
    assert sorted(last.raw_shared) == sorted(f"raw/lerobot/arms/{name}" for name in files(folder)), "lists that nobody's recording is"


def test_own_files_of_lerobot_go_and_its_lists_stay(tmp_path, videos, store):
    root = tmp_path / "arms"
    for index in range(2):
        LeRobotFiles(root, videos[index], index=index, listed=2).write()
    take(root, store, "lerobot")
    folder = store.raw / "lerobot" / "arms"
    before = files(folder)
    done = forget_episodes(open_root(store.root), episode_id=ARMS[0])
    own = {name for name in before if "episode_000000" in name}
    assert len(own) == 2 and files(folder) == {name: data for name, data in before.items() if name not in own}
    assert done.raw_shared == tuple(f"raw/lerobot/arms/meta/{name}" for name in ("episodes.jsonl", "info.json", "tasks.jsonl"))
    assert not done.complete and take(folder, store, "lerobot", force=True, dataset="arms").built == (ARMS[1],)


def test_a_delivery_that_lies_in_the_store_under_any_name(raw, bench, store):
    folder = open_root(store.root, create=True).raw / "mecka" / "Lieferung ü 1"
    folder.parent.mkdir(parents=True)
    bench.raw.rename(folder)
    take(folder, store, delivery="first", dataset="kitchen")
    before = files(folder)
    done = forget_episodes(store, episode_id=IDS[2])
    assert files(folder) == without(before, IDS[2]) and done.removed["raw"] > 0 and done.complete


def test_an_older_copy_is_looked_through_too(raw, bench, store):
    take(bench.raw, store, delivery="first")
    raw[IDS[0]].hands = raw[IDS[0]].hands.replace("0.4", "0.5", 1)
    raw[IDS[0]].write()
    take(bench.raw, store, delivery="second", force=True)
    before = files(store.raw)
    done = forget_episodes(open_root(store.root), episode_id=IDS[0])
    assert files(store.raw) == {name: data for name, data in before.items() if IDS[0] not in name} and done.complete


def test_a_copy_is_found_where_the_last_build_was_from_elsewhere(raw, bench, store):
    take(bench.raw, store)
    take(bench.raw, store, copy=False, force=True)
    before = files(store.raw)
    done = forget_episodes(open_root(store.root), episode_id=IDS[0])
    assert files(store.raw) == {name: data for name, data in before.items() if IDS[0] not in name}
    assert done.raw_outside == (str(bench.raw / IDS[0]),) and done.complete


def test_so_it_is_where_ids_follow_from_the_dataset(tmp_path, videos, store):
    root = tmp_path / "arms"
    for index in range(2):
        LeRobotFiles(root, videos[index], index=index, listed=2).write()
    take(root, store, "lerobot", dataset="g1", delivery="first")
    take(root, store, "lerobot", dataset="g1", delivery="first", copy=False, force=True)
    before = files(store.raw)
    done = forget_episodes(open_root(store.root), episode_id="lerobot-g1-000001")
    assert files(store.raw) == {name: data for name, data in before.items() if "episode_000001" not in name}
    assert len(done.raw_shared) == 3 and not done.raw_unread


def test_an_older_copy_of_which_nobody_knows_the_dataset_is_named(arms, store):
    take(arms, store, "lerobot", dataset="g1", delivery="first")
    (arms / "note").write_text("")
    take(arms, store, "lerobot", dataset="g1", delivery="second", force=True)
    before = files(store.raw)
    done = forget_episodes(open_root(store.root), episode_id="lerobot-g1-000001")
    assert files(store.raw) == before
    assert done.raw_unread == ("raw/lerobot/first: nothing says any more as which dataset it was ingested. Nothing of it was removed. "
                               "Look through it, and remove by hand what is of the subject.",)  # fmt: skip


@pytest.mark.parametrize("damage", ["gone", "broken"])
def test_of_a_delivery_that_cannot_be_read_any_more_nothing_goes(arms, store, capsys, damage):
    take(arms, store, "lerobot")
    folder = store.raw / "lerobot" / "arms"
    (folder / "meta/info.json").unlink()
    if damage == "broken":
        (folder / "meta/info.json").write_text("{")
    before = files(folder)
    said = forget(store, "--episode", ARMS[0], capsys=capsys, status=1)
    assert files(folder) == before
    assert "raw files that nobody can tell apart: raw/lerobot/arms: its raw delivery: " in said and "Nothing of it was removed." in said


def test_a_recording_goes_as_a_whole_with_one_of_its_clips(raw, bench, store):
    take(bench.raw, store, clips=ClipRule(ranges={IDS[0]: ((0, 6), (6, 12))}))
    folder = store.raw / "mecka" / "raw"
    before, (first, second) = files(folder), [f"{IDS[0]}-c{start}-{start + 6}" for start in (0, 6)]
    done = forget_episodes(open_root(store.root), episode_id=first)
    assert files(folder) == without(before, IDS[0]) and done.episodes == (first,)
    assert open_store(store, "zarr").episode_ids() == [second, *IDS[1:]]


def test_where_something_cannot_be_read_what_no_recording_names_stays(raw, bench, store):
    (bench.raw / IDS[0] / "preview.jpg").write_bytes(b"x")
    take(bench.raw, store)
    folder = store.raw / "mecka" / "raw"
    path = folder / IDS[1] / f"{IDS[1]}.json"
    path.unlink()
    path.write_text("{")
    before = files(folder)
    done = forget_episodes(open_root(store.root), episode_id=IDS[0])
    assert files(folder) == {name: data for name, data in before.items() if IDS[0] not in name or name.endswith("preview.jpg")}
    assert f"raw/mecka/raw/{IDS[0]}/preview.jpg" in done.raw_shared
    done = forget_episodes(open_root(store.root), episode_id=IDS[1])
    assert f"folder {IDS[1]}: no readable episode JSON" in done.raw_unread[0] and (folder / IDS[1]).is_dir()


def test_files_elsewhere_are_named_by_recording(raw, bench, arms, store):
    (bench.raw / "recordings.json").write_text("[]")
    take(bench.raw, store, copy=False)
    take(arms, store, "lerobot", copy=False)
    before = files(bench.raw) | files(arms)
    done = forget_episodes(open_root(store.root), episode_id=IDS[0])
    assert done.raw_outside == (str(bench.raw / IDS[0]), f"{bench.raw / 'recordings.json'} (others use it too, or it may be of others)")
    done = forget_episodes(store, episode_id=ARMS[0])
    assert len(done.raw_outside) == len(files(arms)) and all("others use it too" in where for where in done.raw_outside)
    assert done.complete and files(bench.raw) | files(arms) == before


def test_links_are_not_followed_out(raw, bench, store, tmp_path):
    take(bench.raw, store)
    folder = store.raw / "mecka" / "raw"
    for name in ("a", "b"):
        (tmp_path / f"elsewhere {name}").mkdir()
        (tmp_path / f"elsewhere {name}" / "file").write_bytes(b"of others")
    (folder / IDS[0] / "link").symlink_to(tmp_path / "elsewhere a")
    assert forget_episodes(open_root(store.root), episode_id=IDS[0]).complete and not (folder / IDS[0]).exists()
    (folder / IDS[1]).rename(tmp_path / "moved")
    (folder / IDS[1]).symlink_to(tmp_path / "moved")
    moved = files(tmp_path / "moved")
    done = forget_episodes(open_root(store.root), episode_id=IDS[1])
    assert not done.complete and "leads out of the delivery by a link" in done.raw_unread[0]
    assert files(tmp_path / "moved") == moved and (tmp_path / "elsewhere a" / "file").read_bytes() == b"of others"


def test_a_kill_among_the_raw_files_leaves_the_rest_to_the_next_call(raw, bench, store, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(paths, plan):
        (folder / IDS[0] / f"{IDS[0]}.json").unlink()  # the file by which the recording is found
        raise Killed

    take(bench.raw, store)
    folder = store.raw / "mecka" / "raw"
    before = files(folder)
    with monkeypatch.context() as patch:
        patch.setattr(forgetting, "remove_raw", killed)
        with pytest.raises(Killed):
            forget_episodes(open_root(store.root), episode_id=IDS[0])
    assert files(folder) != without(before, IDS[0])
    forget_episodes(open_root(store.root), episode_id=IDS[0])
    assert files(folder) == without(before, IDS[0])


def test_a_damaged_record_of_a_killed_call_is_named(raw, bench, store):
    (bench.raw / "recordings.json").write_text("[]")
    take(bench.raw, store)
    assert not forget_episodes(open_root(store.root), episode_id=IDS[0]).complete
    (pending,) = store.ledger.glob("forgetting-*.pending")
    pending.write_text("[")
    with pytest.raises(InputError, match="damaged .* Look through raw/ by hand"):
        forget_episodes(open_root(store.root), episode_id=IDS[0])

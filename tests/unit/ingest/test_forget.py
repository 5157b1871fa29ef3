"""After forgetting, nothing of the person is left in any file, and what did not hold them opens as before."""

import json

import pytest

from egodata.catalog import DatasetRule, freeze, load_dataset
from egodata.catalog.leases import lease
from egodata.cli.main import cli, run
from egodata.errors import ConflictError, GateError, InputError, NotFoundError
from egodata.findings import Finding, Severity
from egodata.findings.waivers import add_waiver, read_waivers
from egodata.formats import open_store
from egodata.formats.lance import build_lance, compact_lance
from egodata.formats.zarr import publish_draft
from egodata.ingest.forget import forget_episodes, still_named
from egodata.parity import check_parity
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)


@pytest.fixture
def store(tmp_path):
    """Three people; b1 and c1 were delivered twice, and datasets hold old and new contents, with and without the person b."""
    paths = open_root(tmp_path / "store", create=True)
    for seed, name in enumerate(("a1", "b1", "b2", "c1")):
        publish_draft(paths, small_draft(tmp_path, frames=40, seed=seed, episode_id=name, operator=name[0]), settings=SETTINGS)
    build_lance(paths)
    for version, where in (("all", {}), ("others", {"operator": ("mecka/a", "mecka/c")})):
        freeze(paths, DatasetRule(name="old", heads=("train",), valid_ratio=0.0, where=where), version=version)
    for seed, name in ((7, "b1"), (8, "c1")):
        publish_draft(paths, small_draft(tmp_path, frames=40, seed=seed, episode_id=name, operator=name[0]), settings=SETTINGS)
    build_lance(paths)
    freeze(paths, DatasetRule(name="new", heads=("train",), valid_ratio=0.0, where={"operator": "mecka/c"}), version="c")
    check_parity(paths, samples=4)
    run = paths.runs / "r1"
    run.mkdir(parents=True)
    (run / "dataset.json").write_text(json.dumps({"digest": load_dataset(paths, "old@all").digest}))
    for name in ("b1", "c1"):
        add_waiver(paths.ledger, Finding("hand-missing", Severity.WARNING, name, "no left hand"), reason="one-handed task")
    paths.manifest("old", "all").with_name("card.html").write_text("pictures of b1")
    paths.manifest("new", "c").with_name("card.html").write_text("pictures of c1")
    (paths.reports / "preview").mkdir()
    (paths.reports / "preview" / "b1.mp4").write_bytes(b"x")
    (paths.cache / "blocks").mkdir(parents=True)
    (paths.cache / "blocks" / "x").write_bytes(b"y")
    return paths


def numbers(paths, ref):
    """Return every number and video byte that a dataset names, from both formats."""
    manifest = load_dataset(paths, ref)
    found = {}
    for format in ("zarr", "lance"):
        opened = open_store(paths, format, versions=manifest.lance_versions)
        for member in manifest.head("train"):
            reader = opened.open(member.episode_id, content=member.content)
            keys, total = reader.meta.numeric_keys, reader.meta.total_frames
            arrays = {key: array.tobytes() for key, array in reader.rows(keys, [(0, total)] * len(keys)).items()}
            found[format, member.episode_id] = (arrays, reader.video_chunk("front_1", 0), reader.spans("annotations_subtask"))
    return found


def test_an_operator_is_gone_and_the_others_are_not(store):
    kept = {ref: numbers(store, ref) for ref in ("old@others", "new@c")}
    done = forget_episodes(store, operator="mecka/b")
    assert done.episodes == ("b1", "b2") and done.withdrawn == ("old@all",) and done.kept == ("new@c", "old@others")
    assert done.runs == ("r1",) and done.probes > 3 and done.remains == ()
    assert done.removed["zarr"] > 10 and done.removed["caches"] == 1 and done.removed["reports"] >= 2
    assert still_named(store, ["b1", "b2"]) == []
    assert {ref: numbers(store, ref) for ref in kept} == kept
    with pytest.raises(GateError, match="dataset old@all: withdrawn, 2 of its episodes were forgotten"):
        load_dataset(store, "old@all")
    assert open_store(store, "zarr").episode_ids() == open_store(store, "lance").episode_ids() == ["a1", "c1"]
    assert check_parity(store).passed and not build_lance(store).wrote and not compact_lance(store).wrote
    named = [path for path in store.root.rglob("*") if path.is_file() and not path.is_symlink() and b'"b1"' in path.read_bytes()]
    texts = {path.relative_to(store.root).as_posix() for path in named if path.suffix in (".json", ".html")}
    assert texts == {"datasets/old/all/manifest.json"}
    assert [waiver.episode for waiver in read_waivers(store.ledger).values()] == ["c1"]  # decisions about others stay
    cards = [path.parent.relative_to(store.datasets).as_posix() for path in store.datasets.rglob("card.html")]
    assert cards == ["new/c"]
    with pytest.raises(NotFoundError, match="no episode of operator mecka/zz"):
        forget_episodes(store, operator="mecka/zz")


def test_again_after_a_kill_in_the_middle(monkeypatch, store):
    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("egodata.ingest.forget._rewrite_lance", killed)
        with pytest.raises(Killed):
            forget_episodes(store, operator="mecka/b")
    done = forget_episodes(store, operator="mecka/b")
    assert still_named(store, done.episodes) == [] and done.withdrawn == ("old@all",)
    assert numbers(store, "old@others") and check_parity(store).passed


def test_one_episode_by_the_command(store, capsys):
    assert run(cli, ["forget", str(store.root), "--episode", "a1", "--yes", "--json"], program="egodata") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["episodes"] == ["a1"] and found["withdrawn"] == ["old@all", "old@others"] and found["remains"] == []
    assert still_named(store, ["a1"]) == []


def test_a_live_lease_is_honoured_and_a_subject_is_needed(store):
    with lease(store, load_dataset(store, "old@all")), pytest.raises(ConflictError, match="episode b1: lease of process"):
        forget_episodes(store, operator="mecka/b")
    for words in ({}, {"operator": "x", "episode_id": "y"}):
        with pytest.raises(InputError, match="expected one of an episode and an operator"):
            forget_episodes(store, **words)
    with pytest.raises(NotFoundError, match="no episode b9; known: a1"):
        forget_episodes(store, episode_id="b9")


def test_who_was_forgotten_does_not_come_back_with_the_next_delivery(raw, bench):
    first = bench()
    gone = sorted(raw)[0]
    forget_episodes(bench.paths, episode_id=gone)
    listed = (bench.paths.ledger / "forgotten.jsonl").read_text()
    assert gone not in listed, "hashes, not ids"
    again = bench()
    (left_out,) = [outcome for outcome in again.outcomes if outcome.findings and outcome.findings[-1].code == "forgotten"]
    assert left_out.recording == gone and left_out.status == "skipped" and left_out.episodes == {}
    assert len(again.outcomes) == len(first.outcomes) and not again.built
    assert gone not in open_store(bench.paths, "zarr").episode_ids()
    assert not (bench.paths.root / "quarantine").exists() or not list((bench.paths.root / "quarantine").rglob(f"{gone}*"))
    bench(include_forgotten=True)
    assert gone in open_store(bench.paths, "zarr").episode_ids()
    (bench.paths.ledger / "forgotten.jsonl").write_text("{")
    with pytest.raises(InputError, match="forgotten.jsonl: damaged"):
        bench()

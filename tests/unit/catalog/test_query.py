"""Filters by expression, registries and terms: the same catalog from zarr and from Lance, and errors that help."""

import json
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from egodata.catalog import DatasetRule, freeze
from egodata.catalog.known import Terms, load_known, set_terms
from egodata.catalog.query import catalog_table, find_episodes
from egodata.catalog.registry import import_registry, read_registry
from egodata.catalog.rows import catalog_from_lance, catalog_from_store
from egodata.catalog.splits import split_keys
from egodata.cli.main import cli, run
from egodata.episode import Clip
from egodata.errors import ConfigError, GateError, InputError, NotFoundError
from egodata.formats import open_store
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)
REGISTRY = "episode_hash,operator,lab,task,embodiment,num_frames,is_deleted,scene,mp4_path\n"


def clip_of(draft, recording, index, *, start, aliased):
    total = draft.meta.total_frames
    return replace(draft, meta=replace(draft.meta, recording_id=recording, clip=Clip(index, start, start + total, aliased)))


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Episodes a and b as whole recordings, two clips of recording r, one of them aliased, and one aliased clip of recording s."""
    folder = tmp_path_factory.mktemp("catalog")
    paths = open_root(folder / "store", create=True)
    for seed, name in enumerate(("b", "a")):
        draft = small_draft(folder, frames=20 + seed, seed=seed, episode_id=name, operator=f"op_{name}")
        publish_draft(paths, draft, settings=SETTINGS)
    for index, (name, recording, aliased) in enumerate((("r-c0-20", "r", False), ("first", "r", True), ("only", "s", True))):
        draft = small_draft(folder, frames=22 + index, seed=5 + index, episode_id=name, operator=None)
        publish_draft(paths, clip_of(draft, recording, index % 2, start=20 * index, aliased=aliased), settings=SETTINGS)
    build_lance(paths)
    return paths


@pytest.fixture(autouse=True)
def nothing_known(paths):
    for file in paths.catalog.glob("*"):
        file.unlink()


def ids(table):
    return table["episode_id"].to_pylist()


def test_expressions_select_and_order_by_id(paths):
    assert ids(find_episodes(paths)) == ["a", "b", "first", "only", "r-c0-20"]
    assert ids(find_episodes(paths, "n_frames > 20 AND vendor = 'mecka'")) == ["a", "first", "only", "r-c0-20"]
    assert ids(find_episodes(paths, "operator IN ('mecka/op_b', 'mecka/op_a')")) == ["a", "b"]
    assert ids(find_episodes(paths, "operator IS NULL AND NOT aliased")) == ["r-c0-20"]
    assert ids(find_episodes(paths, "array_has(cameras, 'front_1') AND episode_id LIKE 'r%'")) == ["r-c0-20"]


@pytest.mark.parametrize(
    ("expression", "error", "text"),
    [
        ("n_frame > 3", ConfigError, "no such column n_frame; did you mean n_frames"),
        ("n_frames > > 3", ConfigError, "filter `n_frames > > 3`: cannot be used"),
        ("n_frames > 'many'", ConfigError, "could not convert to literal"),
        ("n_frames > 5000", InputError, "none of 5 episodes matches .* n_frames is 20 to 24"),
        ("task_name = 'fold'", InputError, r"task_name is move_cube \(5\)\."),
    ],
)
def test_wrong_and_empty_filters_help(paths, expression, error, text):
    with pytest.raises(error, match=text):
        find_episodes(paths, expression)


def test_columns_and_rows_agree(paths, tmp_path):
    set_terms(paths, "mecka/small-delivery", terms=Terms("CC-BY-4.0", "research"), known_deliveries=["mecka/small-delivery"])
    import_registry(
        paths, registry(tmp_path, "a,reg,lab1,sort_cubes,,21,true,kitchen,x", "r-c0-20,mecka/z,,,,,,,"), rows=catalog_from_lance(paths)
    )
    rows = load_known(paths).overlay(catalog_from_lance(paths))
    assert rows == load_known(paths).overlay(catalog_from_store(open_store(paths, "zarr")))
    for row, found in zip(rows, catalog_table(paths).to_pylist(), strict=True):
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(row).items()}
        assert values == {name: found[name] for name in values}
    assert ids(find_episodes(paths, "deleted OR operator = 'mecka/z'")) == ["a", "r-c0-20"]
    assert ids(find_episodes(paths, "licence = 'CC-BY-4.0' AND task_name = 'sort_cubes' AND vendor_task = 'move_cube'")) == ["a"]


def registry(folder, *lines):
    file = folder / "registry.csv"
    file.write_text(REGISTRY + "".join(f"{line}\n" for line in lines))
    return file


def test_a_registry_wins_in_filters_and_disagreements_are_findings(paths, tmp_path):
    file = registry(tmp_path, "a,op_x,lab1,,human_bimanual,300,,kitchen,p", "b,op_b,lab1,move_cube,aria,20,1,,", "zz,op,,,,,,,")
    done = import_registry(paths, file, rows=catalog_from_lance(paths))
    assert (done.rows, done.matched, done.unlisted, done.ignored) == (3, 2, 3, ("mp4_path",))
    assert {(f.code, f.episode, f.expected, f.got) for f in done.findings} == {
        ("registry-operator", "a", "mecka/op_a", "mecka/op_x"),
        ("registry-num-frames", "a", "21", "300"),
        ("registry-embodiment", "b", "human_bimanual", "aria"),
    }
    found = {row["episode_id"]: row for row in find_episodes(paths, "lab = 'lab1'").to_pylist()}
    assert (found["a"]["operator"], found["a"]["vendor_operator"], found["a"]["scene"]) == ("mecka/op_x", "mecka/op_a", "kitchen")
    assert found["b"]["deleted"] and not found["a"]["deleted"]
    import_registry(paths, registry(tmp_path, "a,op_y,,,,,,,"), rows=catalog_from_lance(paths))
    assert ids(find_episodes(paths, "operator = 'mecka/op_y'")) == ["a"] and ids(find_episodes(paths, "lab = 'lab1'")) == ["b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operator,task\na,b\n", "no column episode_hash or episode_id"),
        (REGISTRY + "a,,,,,,,,\na,,,,,,,,\n", "1 episodes are listed twice, first a"),
        (REGISTRY + ",op,,,,,,,\n", "1 of 1 rows have no episode_hash"),
        (REGISTRY + "a,,,,,many,,,\n", "column num_frames: expected int64"),
        (REGISTRY + "a,,,,,,perhaps,,\n", "column is_deleted: expected bool"),
        (REGISTRY + "a,b\n", "cannot be read"),
    ],
)
def test_exports_that_cannot_be_used(tmp_path, text, message):
    file = tmp_path / "registry.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_registry(file)


def test_parquet_and_other_files(tmp_path):
    file = tmp_path / "r.parquet"
    pq.write_table(pa.table({"episode_hash": ["b", "a"], "num_frames": [3.0, None], "is_deleted": [True, None]}), file)
    table, _ = read_registry(file)
    assert table.to_pylist()[0] | {} == {**dict.fromkeys(table.column_names), "episode_id": "b", "num_frames": 3, "is_deleted": True}
    with pytest.raises(InputError, match="expected a .csv or .parquet"):
        read_registry(tmp_path / "r.json")
    with pytest.raises(InputError, match="no such file"):
        read_registry(tmp_path / "none.csv")


def test_clips_are_split_by_the_same_keys_in_the_same_order_on_every_source(paths):
    from_lance, from_zarr = catalog_from_lance(paths), catalog_from_store(open_store(paths, "zarr"))
    expected = {"a": "a", "b": "b", "first": "r", "r-c0-20": "r", "only": "only"}
    assert split_keys(from_lance) == split_keys(from_zarr) == expected
    rule = DatasetRule(name="clips", heads=("train", "seen"), valid_ratio=0.3, seed=3)
    lance, zarr = (freeze(paths, rule, version=name, format=name).manifest for name in ("lance", "zarr"))
    assert lance.digest == zarr.digest and lance.heads == zarr.heads
    for members in lance.heads.values():
        assert [member.episode_id for member in members] == sorted(member.episode_id for member in members)
    placed = {member.episode_id: head for head, members in lance.heads.items() for member in members}
    assert placed["first"] == placed["r-c0-20"]


def test_two_recordings_with_one_key_are_named(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    publish_draft(paths, small_draft(tmp_path, frames=20, episode_id="s"), settings=SETTINGS)
    other = clip_of(small_draft(tmp_path, frames=20, seed=1, episode_id="s-c0-20"), "t", 0, start=0, aliased=False)
    second = clip_of(small_draft(tmp_path, frames=20, seed=2, episode_id="t"), "u", 0, start=0, aliased=True)
    for draft in (other, second):
        publish_draft(paths, draft, settings=SETTINGS)
    with pytest.raises(GateError, match=r"split key t: shared by recordings t .* and u"):
        freeze(paths, DatasetRule(name="d", heads=("train",), valid_ratio=0.0), format="zarr")


def test_rules_filter_on_registry_and_terms_and_record_the_operator_used(paths, tmp_path):
    import_registry(paths, registry(tmp_path, "a,reg,,,,,,kitchen,", "b,reg,,,,,true,kitchen,"), rows=catalog_from_lance(paths))
    set_terms(paths, "mecka/small-delivery", terms=Terms("CC-BY-4.0"), known_deliveries=["mecka/small-delivery"])
    rule = DatasetRule(name="k", heads=("train",), valid_ratio=0.0, where={"scene": "kitchen", "deleted": False, "licence": "CC-BY-4.0"})
    made = [freeze(paths, rule, version=name, format=name).manifest for name in ("lance", "zarr")]
    assert made[0].digest == made[1].digest
    (member,) = made[0].head("train")
    assert (member.episode_id, member.operator) == ("a", "mecka/reg")
    assert made[0].provenance["catalog_known"] == load_known(paths).digest


def test_terms_need_a_delivery_and_a_value(paths):
    with pytest.raises(InputError, match="no delivery 'mecka/smal'; did you mean mecka/small"):
        set_terms(paths, "mecka/smal", terms=Terms("x"), known_deliveries=["mecka/small"])
    with pytest.raises(InputError, match="nothing to set"):
        set_terms(paths, "mecka/small", terms=Terms(), known_deliveries=["mecka/small"])
    set_terms(paths, "mecka/small", terms=Terms("x"), known_deliveries=["mecka/small"])
    set_terms(paths, "mecka/small", terms=Terms(consent="y"), known_deliveries=["mecka/small"])
    assert load_known(paths).terms == {"mecka/small": Terms("x", "y")}


def test_the_command_line(paths, tmp_path, capsys):
    file = registry(tmp_path, "a,op_x,,,,,,kitchen,")
    assert run(cli, ["catalog", "import", str(paths.root), str(file)], program="egodata") == 0
    out = capsys.readouterr().out
    assert (
        "operator is mecka/op_a in the episode, mecka/op_x in registry" in out and "1 of them in the store, 4 of the store unlisted" in out
    )
    assert run(cli, ["catalog", "import", str(paths.root), str(file), "--fail-on", "warning", "--json"], program="egodata") == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["code"] == "registry-operator"
    assert run(cli, ["catalog", "terms", str(paths.root), "mecka/small-delivery", "--licence", "CC0"], program="egodata") == 0
    assert "5 episodes, licence CC0" in capsys.readouterr().out
    assert run(cli, ["inspect", str(paths.root), "--where", "scene = 'kitchen' AND licence = 'CC0'"], program="egodata") == 0
    assert "1 episodes, 21 frames" in capsys.readouterr().out
    assert run(cli, ["inspect", str(paths.root), "--where", "n_frames > 0", "--limit", "2"], program="egodata") == 0
    assert "5 episodes" in (out := capsys.readouterr().out) and "3 more with --limit" in out
    assert run(cli, ["inspect", str(paths.root), "--where", "scene = 'attic'"], program="egodata") == 2
    assert "scene is None (4), kitchen (1)" in capsys.readouterr().err


def test_a_store_without_a_copy(tmp_path):
    with pytest.raises(NotFoundError, match="no Lance table episodes"):
        find_episodes(open_root(tmp_path / "store", create=True), "n_frames > 3")


@pytest.mark.parametrize("rest", ["nonsense", "; DROP TABLE t", "LIMIT 1", "ORDER BY n_frames", "AN operator = 'x'"])
def test_what_stands_behind_a_condition_is_never_dropped_silently(paths, rest):
    with pytest.raises(ConfigError, match="cannot be used"):
        find_episodes(paths, f"n_frames > 0 {rest}")
    assert len(find_episodes(paths, "n_frames > 0 -- all of them")) == len(find_episodes(paths))

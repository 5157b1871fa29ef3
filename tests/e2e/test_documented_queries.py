"""The worked examples of docs/lance-and-catalog.md, run as they stand there on a store of two episodes."""

import re

import numpy as np
import pytest

from egodata.formats import open_store
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(preset="ultrafast", frames_per_chunk=40)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    paths = open_root(folder / "store", create=True)
    for seed, name in enumerate(("ep-a", "ep-b")):
        publish_draft(paths, small_draft(folder, frames=60 + seed, seed=seed, episode_id=name), settings=SETTINGS)
    build_lance(paths)
    return paths


def test_lance_duckdb_and_polars_examples_run_as_written(store, repository, capsys):
    page = (repository / "docs/lance-and-catalog.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    assert [re.findall(r"^import (\w+)", block, flags=re.M)[0] for block in blocks] == ["lance", "duckdb", "polars"]
    names: dict[str, object] = {}
    for block in blocks:
        lines = block.rstrip().splitlines()
        if lines[-1].startswith("poses."):
            lines[-1] = f"counts = {lines[-1]}"
        code = "\n".join(lines).replace('"STORE/', f'"{store.root}/').replace("'EPISODE'", "'ep-a'")
        exec(compile(code, "docs/lance-and-catalog.md", "exec"), names)
    reader = open_store(store, "zarr").open("ep-a")
    valid = reader.rows(["left.obs_ee_pose_valid"], [(0, 60)])["left.obs_ee_pose_valid"]
    poses = reader.rows(["left.obs_ee_pose"], [(0, 60)])["left.obs_ee_pose"]
    table = names["table"]
    assert table.column("frame_index").to_pylist() == np.flatnonzero(valid).tolist()
    assert np.array_equal(np.array(table.column("left__obs_ee_pose").to_pylist(), np.float32), poses[valid])
    assert names["mp4"] == reader.video_chunk("front_1", 0)
    assert "121" in capsys.readouterr().out, "frames of both episodes, summed by DuckDB"
    counts = names["counts"]
    assert dict(zip(counts["episode_id"].to_list(), counts["len"].to_list(), strict=True)) == {"ep-a": 60, "ep-b": 61}

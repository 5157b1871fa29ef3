"""The page shows the verdict, the worst offenders, frames side by side, and histograms; it needs no other file."""

import re

import lance
import numpy as np
import pyarrow as pa
import pytest

from egodata.formats import open_store
from egodata.formats.lance import build_lance, table_versions, tables
from egodata.formats.lance.commit import replace_episodes, stage
from egodata.formats.zarr import publish_draft
from egodata.parity import check_parity
from egodata.reports.parity_page import heat_map, write_parity_page
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings, encode_frames

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)


@pytest.fixture
def paths(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    for name in ("a", "b"):
        publish_draft(paths, small_draft(tmp_path, frames=30, episode_id=name), settings=SETTINGS)
    build_lance(paths)
    return paths


def other_pixels(paths):
    """Replace the copy's first element of episode a by one with a square that is not in the published video."""
    videos, versions = tables.open_table(paths, "videos"), table_versions(paths)
    rows = videos.to_table(filter="episode_id = 'a'", blob_handling="all_binary")
    reader = open_store(paths, "zarr").open("a")
    frames = reader.frames("front_1", range(25)).copy()
    frames[11, 10:20, 10:20] ^= 128
    blobs = [next(encode_frames(iter(frames), fps=reader.meta.fps, settings=SETTINGS)), *rows["video"].to_pylist()[1:]]
    columns = [*(rows[name].combine_chunks() for name in rows.schema.names[:-1]), lance.blob_array(blobs)]
    staged = stage(videos, pa.Table.from_arrays(columns, schema=videos.schema).to_batches(), schema=videos.schema)
    made = replace_episodes(videos, ["a"], fragments=staged, properties={})
    properties = {tables.version_property(name): str(versions[name]) for name in tables.DATA_TABLES}
    properties[tables.version_property("videos")] = str(made.version)
    replace_episodes(tables.open_table(paths, "episodes"), [], fragments=[], properties=properties)


def test_a_passed_check(paths):
    report = check_parity(paths, samples=None)
    page = write_parity_page(paths, report)
    text = page.read_text()
    assert page.name.endswith(".html") and page.with_suffix(".json").is_file()
    assert "passed" in text and "None: nothing differs beyond the bounds." in text and "Frames side by side" not in text
    assert "decoded frames by mean absolute difference" in text and "No number differs." in text


def test_a_failed_check_shows_the_frame(paths):
    other_pixels(paths)
    report = check_parity(paths, samples=1)
    text = write_parity_page(paths, report).read_text()
    assert "failed" in text and "episode a, front_1, frame 11" in text and "PSNR" in text
    assert len(re.findall(r'src="data:image/png;base64,', text)) >= 3
    assert not re.findall(r'(?:src|href)="(?!data:)', text)


def test_the_difference_is_where_the_frames_differ():
    one = np.full((40, 60, 3), 100, np.uint8)
    other = one.copy()
    other[10:12, 20:22, 1] += 50
    found = heat_map(one, other).astype(int).sum(-1)
    assert found[10, 20] > 500 and (np.argwhere(found > 100).min(0) == (10, 20)).all() and found[0, 0] < 30


def test_an_episode_that_one_side_lacks(paths, tmp_path):
    publish_draft(paths, small_draft(tmp_path, frames=20, episode_id="c"), settings=SETTINGS)
    report = check_parity(paths)
    assert "episode c: in zarr, not in lance" in write_parity_page(paths, report, out=tmp_path / "p.html").read_text()

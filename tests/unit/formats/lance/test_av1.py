"""A copy whose video is encoded again: the same frames in the same places, with its loss measured and bounded."""

import numpy as np
import pytest

from egodata.errors import ConflictError, InputError, VideoError
from egodata.formats.lance import LanceStore, build_lance, compact_lance
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.parity import ParityConfig, check_parity
from egodata.schema.layout import open_root
from egodata.testing.drafts import FPS, moving_frames, small_draft
from egodata.video import AV1, EncodeSettings, encode_av1
from egodata.video.av1 import index_av1

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)
BOUNDS = ParityConfig(pixel=None, pixel_mae=6.0, psnr_db=26.0, ssim=0.8, video_bytes="any")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("av1")
    paths = open_root(folder / "store", create=True)
    publish_draft(paths, small_draft(folder, frames=40, size=(128, 96), episode_id="a"), settings=SETTINGS)
    build_lance(paths, video="av1")
    return paths


def test_frames_are_alike_in_any_order_and_the_loss_is_recorded(store):
    zarr, copy = ZarrStore(store).open("a"), LanceStore(store).open("a")
    assert copy.meta == zarr.meta and copy.digests == zarr.digests
    assert copy.video_info("front_1").settings["codec"] == AV1 and copy.video_info("front_1").frames == 40
    asked = [39, 0, 17, 24, 25, 26, 3, 3]
    expected, got = zarr.frames("front_1", asked), copy.frames("front_1", asked)
    assert np.array_equal(got, copy.frames("front_1", range(40))[asked])
    apart = np.abs(expected.astype(int) - got).mean((1, 2, 3))
    assert 0 < apart.max() < 6
    rows = LanceStore(store).table("videos").to_table(columns=["n_frames", "codec", "pixel_mae", "psnr_db", "ssim"]).to_pylist()
    assert [(row["n_frames"], row["codec"]) for row in rows] == [(25, AV1), (15, AV1)]
    everywhere = np.abs(zarr.frames("front_1", range(25)).astype(int) - copy.frames("front_1", range(25)))
    assert rows[0]["pixel_mae"] == pytest.approx(everywhere.mean())
    assert rows[0]["psnr_db"] == pytest.approx((10 * np.log10(255**2 / (everywhere.astype(float) ** 2).mean((1, 2, 3)))).mean())
    assert 0.8 < rows[0]["ssim"] < 1


def test_parity_states_the_loss_and_holds_it_against_bounds(store):
    report = check_parity(store, samples=None, config=BOUNDS)
    assert report.passed and report.level("content").outcome.likeness.frames == 40
    found = report.to_json()["levels"]["content"]["likeness"]
    assert 0 < found["mae_mean"] < 6 and found["psnr_min_db"] > 26 and found["ssim_min"] > 0.8
    strict = check_parity(store, samples=None, config=ParityConfig(pixel=None, psnr_db=80.0, video_bytes="any"))
    (finding,) = strict.level("content").outcome.findings
    assert finding.code == "parity-pixels" and "wanted 80" in finding.message and "40 of 40" in finding.message
    assert not check_parity(store, samples=1).passed


def test_the_mode_is_settled_when_tables_are_made(store):
    assert not build_lance(store).wrote and not build_lance(store, video="av1").wrote
    with pytest.raises(ConflictError, match="made with video av1, got copy"):
        build_lance(store, video="copy")
    with pytest.raises(InputError, match="video 'av2': did you mean av1"):
        build_lance(store, video="av2")


def test_compaction_and_a_second_episode(store, tmp_path):
    publish_draft(store, small_draft(tmp_path, frames=20, size=(128, 96), seed=4, episode_id="b"), settings=SETTINGS)
    assert build_lance(store).added == 1
    assert compact_lance(store).blobs == 3
    assert check_parity(store, config=BOUNDS).passed


def test_equal_frames_give_equal_bytes_and_bad_input_is_named():
    frames = moving_frames(20, (64, 48), seed=2)
    one = encode_av1(iter(frames), fps=FPS)
    assert one == encode_av1(iter(frames), fps=FPS) and index_av1(one).frames == 20
    with pytest.raises(VideoError, match="none to encode"):
        encode_av1(iter(()), fps=FPS)
    with pytest.raises(VideoError, match="It was cut off"):
        index_av1(one[:40])

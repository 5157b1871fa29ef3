import hashlib
import subprocess
import sys
import threading
from fractions import Fraction
from io import BytesIO

import av
import numpy as np
import pytest

from egodata.episode import VideoSource
from egodata.errors import VideoError
from egodata.testing.drafts import moving_frames
from egodata.video import DEFAULT_SETTINGS, EncodeSettings, decode_video, encode_frames, encode_video, index_chunk, scan_video

FPS = Fraction(30)
SETTINGS = EncodeSettings(frames_per_chunk=25, gop=9, bframes=3)


def _decoded(elements, tmp_path):
    out = []
    for number, element in enumerate(elements):
        path = tmp_path / f"element{number}.mp4"
        path.write_bytes(element)
        out += list(decode_video(path))
    return np.stack(out)


def _psnr(a, b):
    return 10 * np.log10(255**2 / np.mean((a.astype(np.float64) - b) ** 2))


def test_elements_are_self_contained_and_start_on_a_keyframe(source, tmp_path, frames):
    rows = np.arange(60)
    elements = list(encode_video(VideoSource(source, rows, (64, 48)), fps=FPS, settings=SETTINGS))
    assert len(elements) == 3
    for element, count in zip(elements, (25, 25, 10), strict=True):
        index = index_chunk(element)
        assert index.frames == count
        assert index.key[0]
        (tmp_path / "one.mp4").write_bytes(element)
        scan = scan_video(tmp_path / "one.mp4")
        assert (scan.frames, scan.fps, scan.pix_fmt) == (count, 30, "yuv420p")
    assert _psnr(_decoded(elements, tmp_path), frames) > 30


@pytest.mark.parametrize(("gop", "bframes"), [(30, 7), (13, 3), (9, 0), (1, 0)])
def test_the_structure_is_the_one_for_random_access(frames, gop, bframes):
    (element,) = encode_frames(iter(frames), fps=FPS, settings=EncodeSettings(gop=gop, bframes=bframes))
    index = index_chunk(element)
    assert np.flatnonzero(index.key).tolist() == list(range(0, 60, gop))
    starts = index.display[index.key]
    assert starts.tolist() == list(range(0, 60, gop)), "closed GOPs: a keyframe is shown before all that follow it"
    shown_disposable = index.disposable[index.decode]
    runs = [len(run) for run in "".join("b" if one else "r" for one in shown_disposable).split("r") if run]
    assert max(runs, default=0) == bframes
    assert shown_disposable.sum() == sum(bframes > 0 and not _is_reference(i, gop, bframes) for i in range(60))


def _is_reference(i, gop, bframes):
    """Every (bframes + 1)-th frame of a GOP and its last one; the last frame of all too."""
    at = i % gop
    return at % (bframes + 1) == 0 or at == gop - 1 or i == 59


def test_equal_input_gives_equal_bytes_whatever_memory_held_before(frames):
    seen = set()
    for seed in range(12):
        junk = np.random.default_rng(seed).integers(0, 255, 200_000 + 137_000 * seed, np.uint8)
        del junk
        elements = encode_frames(iter(frames), fps=FPS, settings=EncodeSettings(gop=12, bframes=3, frames_per_chunk=40))
        seen.add(tuple(hashlib.sha256(element).hexdigest() for element in elements))
    assert len(seen) == 1


def test_another_process_gives_the_same_bytes(frames):
    code = (
        "import hashlib; from fractions import Fraction; from egodata.testing.drafts import moving_frames;"
        "from egodata.video import *; f = moving_frames(60, (64, 48), seed=3);"
        "print(hashlib.sha256(b''.join(encode_frames(iter(f), fps=Fraction(30), settings=DEFAULT_SETTINGS))).hexdigest())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    here = b"".join(encode_frames(iter(frames), fps=FPS, settings=DEFAULT_SETTINGS))
    assert hashlib.sha256(here).hexdigest() == told


def test_rows_choose_displayed_frames(source, tmp_path, frames):
    rows = np.array([3, 3, 4, 10, 10, 10, 59])
    elements = list(encode_video(VideoSource(source, rows, (64, 48)), fps=FPS, settings=EncodeSettings(crf=8)))
    found = _decoded(elements, tmp_path)
    assert len(found) == 7
    nearest = [int(np.argmin([np.abs(frame.astype(int) - one).mean() for one in frames])) for frame in found]
    assert nearest == rows.tolist()


def test_too_few_frames_names_both_counts(source):
    stream = encode_video(VideoSource(source, np.arange(64), (64, 48)), fps=FPS, settings=SETTINGS)
    with pytest.raises(VideoError, match=r"video source\.mp4: 60 frames decode, the rows need 64"):
        list(stream)


def test_decoding_stops_where_the_file_is_cut(tmp_path, source, remux):
    whole = remux(source, tmp_path / "first.mp4", options={"movflags": "+faststart"}).read_bytes()
    path = tmp_path / "cut.mp4"
    path.write_bytes(whole[: int(len(whole) * 0.6)])
    with pytest.raises(VideoError, match=r"cut\.mp4: "):
        list(encode_video(VideoSource(path, np.arange(60), (64, 48)), fps=FPS, settings=SETTINGS))


@pytest.mark.parametrize("rows", [[3, 2], [-1, 0]])
def test_rows_that_go_back_are_refused(source, rows):
    with pytest.raises(VideoError, match="never go back"):
        list(encode_video(VideoSource(source, np.array(rows), (64, 48)), fps=FPS, settings=SETTINGS))


def test_an_odd_stored_size_is_refused(source):
    with pytest.raises(VideoError, match="stored size 63x48 must be even"):
        list(encode_video(VideoSource(source, np.arange(5), (63, 48)), fps=FPS, settings=SETTINGS))
    with pytest.raises(VideoError, match="stored size 63x47 must be even"):
        list(encode_frames([np.zeros((47, 63, 3), np.uint8)], fps=FPS, settings=SETTINGS))


def test_an_odd_source_is_scaled_to_the_stored_size(tmp_path, encode_plain):
    odd = moving_frames(5, (65, 49), seed=1)
    path = encode_plain(tmp_path / "odd.mp4", odd, pix_fmt="yuv444p")
    assert (scan_video(path).width, scan_video(path).height) == (65, 49)
    elements = list(encode_video(VideoSource(path, np.arange(5), (64, 48)), fps=FPS, settings=SETTINGS))
    assert _decoded(elements, tmp_path).shape == (5, 48, 64, 3)


def test_a_turned_source_is_stored_upright(tmp_path, source, remux, frames):
    path = remux(source, tmp_path / "turned.mp4", rotation_deg=-90)
    elements = list(encode_video(VideoSource(path, np.arange(10), (48, 64)), fps=FPS, settings=EncodeSettings(crf=8)))
    found = _decoded(elements, tmp_path)
    assert _psnr(found, np.stack([np.rot90(frame, 3) for frame in frames[:10]])) > 28


def _bars():
    colours = [(255, 255, 255), (255, 255, 0), (0, 255, 255), (0, 255, 0), (255, 0, 255), (255, 0, 0), (0, 0, 255), (0, 0, 0)]
    return np.repeat(np.repeat(np.array(colours, np.uint8)[None, :, None], 16, axis=2).reshape(1, -1, 3), 64, axis=0)


@pytest.mark.parametrize(
    ("pix_fmt", "matrix", "full"),
    [("yuv420p", "ITU601", False), ("yuv420p", "ITU709", False), ("yuvj420p", "ITU601", True), ("yuv420p10le", "ITU709", False)],
)
def test_colour_bars_survive_whatever_the_source_is_tagged_as(tmp_path, encode_plain, pix_fmt, matrix, full):
    bars = _bars()
    frame = av.VideoFrame.from_ndarray(bars, format="rgb24")
    yuv = frame.reformat(format=pix_fmt, dst_colorspace=matrix, dst_color_range="JPEG" if full else "MPEG")
    tags = {"colorspace": 1 if matrix == "ITU709" else 6, "color_range": 2 if full else 1}
    codec = "libx265" if "10" in pix_fmt else "libx264"
    options = {"x265-params": "log-level=none", "crf": "4"} if codec == "libx265" else {"crf": "4"}
    path = encode_plain(tmp_path / "bars.mp4", [yuv] * 3, codec=codec, pix_fmt=pix_fmt, tags=tags, options=options)
    (element,) = encode_video(VideoSource(path, np.arange(3), (128, 64)), fps=FPS, settings=EncodeSettings(crf=4))
    found = _decoded([element], tmp_path)[1].astype(int)
    middles = np.arange(8, 128, 16)
    assert np.abs(found[32, middles] - bars[32, middles]).max() <= 6
    with av.open(BytesIO(element)) as container:
        stored = next(container.decode(video=0))
    assert (int(stored.colorspace), int(stored.color_range), int(stored.color_primaries), int(stored.color_trc)) == (1, 1, 1, 1)


def test_pure_red_stays_red_for_an_independent_reader(tmp_path):
    cv2 = pytest.importorskip("cv2")
    red = np.zeros((4, 48, 64, 3), np.uint8)
    red[..., 0] = 255
    (element,) = encode_frames(iter(red), fps=FPS, settings=EncodeSettings(crf=4))
    (tmp_path / "red.mp4").write_bytes(element)
    capture = cv2.VideoCapture(str(tmp_path / "red.mp4"))
    good, bgr = capture.read()
    capture.release()
    assert good
    assert bgr[24, 32].tolist() == pytest.approx([0, 0, 255], abs=8)


def test_hdr_is_refused(tmp_path, frames, encode_plain):
    options = {"x265-params": "log-level=none"}
    tags = {"colorspace": 9, "color_trc": 16, "color_primaries": 9}
    path = encode_plain(tmp_path / "hdr.mp4", frames[:3], codec="libx265", pix_fmt="yuv420p10le", tags=tags, options=options)
    with pytest.raises(VideoError, match=r"hdr\.mp4: PQ \(HDR\) is not supported"):
        list(encode_video(VideoSource(path, np.arange(3), (64, 48)), fps=FPS, settings=SETTINGS))


@pytest.mark.timeout(20)
def test_leaving_early_ends_the_thread(source):
    stream = encode_video(VideoSource(source, np.arange(60), (64, 48)), fps=FPS, settings=EncodeSettings(frames_per_chunk=5))
    next(stream)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "video-ahead"]


@pytest.mark.realdata
def test_av1_from_a_robot_is_scaled_and_stored(shared_data, tmp_path):
    path = next(shared_data.glob("lerobot_v21_g1/videos/*/*/episode_000029.mp4"))
    elements = list(encode_video(VideoSource(path, np.arange(40), (320, 240)), fps=FPS, settings=EncodeSettings()))
    found = _decoded(elements, tmp_path)
    reference = np.stack(list(decode_video(path, size=(320, 240), limit=40)))
    assert found.shape == reference.shape == (40, 240, 320, 3)
    assert _psnr(found, reference) > 36

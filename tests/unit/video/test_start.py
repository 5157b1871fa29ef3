"""Decoding that starts in the middle of a file shows what decoding from its start shows there."""

from fractions import Fraction

import av
import numpy as np
import pytest

from egodata.testing.drafts import moving_frames
from egodata.video.source import displayed_frames

FRAMES = 40


def write(path, *, codec="libx264", options=None, shift=0):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(25), options=options or {})
        stream.width, stream.height, stream.pix_fmt = 96, 54, "yuv420p"
        for number, picture in enumerate(moving_frames(FRAMES, (96, 54), 2)):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number + shift, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("name", "codec", "options", "shift"),
    [
        ("b.mp4", "libx264", {"g": "12", "bf": "3"}, 0),
        ("open.mkv", "libx264", {"g": "12", "bf": "3", "x264-params": "open-gop=1:keyint=12:min-keyint=12:scenecut=0"}, 0),
        ("pyramid.mov", "libx264", {"g": "30", "x264-params": "b-pyramid=normal:bframes=6"}, 37),
        ("plain.mp4", "mpeg4", {"g": "10"}, 0),
        ("all.mkv", "mpeg4", {"g": "1"}, 12),
    ],
)
@pytest.mark.parametrize("first", [1, 11, 12, 13, 25, FRAMES - 1])
def test_the_same_frames_as_from_the_start(tmp_path, name, codec, options, shift, first):
    path = write(tmp_path / name, codec=codec, options=options, shift=shift)
    whole = [frame.to_ndarray() for frame in displayed_frames(path)]
    part = [frame.to_ndarray() for frame in displayed_frames(path, first=first)]
    assert len(whole) == FRAMES and len(part) == FRAMES - first
    for own, true in zip(part, whole[first:], strict=True):
        np.testing.assert_array_equal(own, true)


def test_past_the_end_there_is_nothing(tmp_path):
    assert list(displayed_frames(write(tmp_path / "a.mp4"), first=FRAMES + 3)) == []

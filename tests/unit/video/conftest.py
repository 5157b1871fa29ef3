"""Small sources in every shape that deliveries come in, written with av alone."""

from fractions import Fraction

import av
import numpy as np
import pytest

from egodata.testing.drafts import moving_frames, write_source

SIZE = (64, 48)


@pytest.fixture(scope="session")
def frames():
    """60 RGB frames of 64x48."""
    return moving_frames(60, SIZE, seed=3)


@pytest.fixture(scope="session")
def source(tmp_path_factory, frames):
    """The frames as a plain mp4 without B-frames."""
    return write_source(tmp_path_factory.mktemp("source") / "source.mp4", frames)


@pytest.fixture(scope="session")
def encode_plain():
    """Write frames with av: codec, pixel format, container, time stamps and tags as asked."""

    def write(path, frames, *, codec="libx264", pix_fmt="yuv420p", pts=None, time_base=Fraction(1, 30), tags=None, options=None):
        with av.open(str(path), "w") as container:
            stream = container.add_stream(codec, rate=30, options=options or {})
            first = frames[0]
            is_frame = isinstance(first, av.VideoFrame)
            stream.width, stream.height = (first.width, first.height) if is_frame else (first.shape[1], first.shape[0])
            stream.pix_fmt = pix_fmt
            stream.codec_context.time_base = time_base
            for name, value in (tags or {}).items():
                setattr(stream.codec_context, name, value)
            for number, array in enumerate(frames):
                frame = (
                    array if isinstance(array, av.VideoFrame) else av.VideoFrame.from_ndarray(np.ascontiguousarray(array), format="rgb24")
                )
                frame = frame.reformat(format=pix_fmt) if frame.format.name != pix_fmt else frame
                frame.pts, frame.time_base = number if pts is None else pts[number], time_base
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path

    return write


@pytest.fixture(scope="session")
def remux():
    """Copy packets into another container, with options and a display rotation (counter-clockwise degrees) or flip."""

    def write(source, path, *, options=None, rotation_deg=None, flip=False):
        with av.open(str(source)) as container, av.open(str(path), "w", options=options or {}) as out:
            stream = out.add_stream_from_template(container.streams.video[0])
            if rotation_deg is not None:
                stream.set_display_rotation(rotation_deg, hflip=flip)
            for packet in container.demux(container.streams.video[0]):
                if packet.dts is not None:
                    packet.stream = stream
                    out.mux(packet)
        return path

    return write

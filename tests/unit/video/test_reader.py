from fractions import Fraction
from io import BytesIO

import av
import numpy as np
import pytest

from egodata.episode import VideoInfo
from egodata.errors import CorruptEpisodeError, HandleError, VideoError, WindowError
from egodata.testing.drafts import moving_frames
from egodata.video import ChunkCache, EncodeSettings, FrameReader, decode_video, encode_frames, index_chunk
from egodata.video.reader import packets_needed

FPS = Fraction(30)
FPC = 30


def _store(count, *, gop, bframes, tmp_path, size=(64, 48)):
    settings = EncodeSettings(frames_per_chunk=FPC, gop=gop, bframes=bframes)
    elements = list(encode_frames(iter(moving_frames(count, size, seed=count)), fps=FPS, settings=settings))
    reference = []
    for element in elements:
        (tmp_path / "element.mp4").write_bytes(element)
        reference += list(decode_video(tmp_path / "element.mp4"))
    return VideoInfo(*size, count, FPC, FPS, settings.to_json()), elements, np.stack(reference)


@pytest.mark.parametrize(("gop", "bframes"), [(30, 7), (13, 3), (7, 2), (10, 0), (1, 0)])
@pytest.mark.parametrize("count", [1, FPC - 1, FPC, FPC + 1, 2 * FPC])
def test_any_order_is_bit_exact(tmp_path, gop, bframes, count):
    info, elements, reference = _store(count, gop=gop, bframes=bframes, tmp_path=tmp_path)
    reader = FrameReader(info, elements.__getitem__, where="test")
    assert (reader.frames(range(count)) == reference).all()
    rng = np.random.default_rng(count)
    for _ in range(30):
        request = rng.integers(0, count, rng.integers(1, 6)).tolist()
        assert (reader.frames(request) == reference[request]).all(), request
    for one in range(count):
        assert (reader.frames([one])[0] == reference[one]).all(), one


def test_only_what_is_needed_is_fed(tmp_path):
    _, elements, _ = _store(FPC, gop=30, bframes=7, tmp_path=tmp_path)
    index = index_chunk(elements[0])
    assert packets_needed(index, [0]) == [0]
    # frame 12 is a B-frame between the references 8 and 16: keyframe, 8, 16, then the frame itself
    fed = [int(index.display[position]) for position in packets_needed(index, [12])]
    assert fed == [0, 8, 16, 12]
    assert len(packets_needed(index, [12, 20])) == 6


def test_the_packet_index_agrees_with_a_demuxer(tmp_path):
    _, elements, _ = _store(FPC, gop=13, bframes=3, tmp_path=tmp_path)
    index = index_chunk(elements[0])
    with av.open(BytesIO(elements[0])) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        assert bytes(container.streams.video[0].codec_context.extradata) == index.extradata
    assert [packet.size for packet in packets] == index.sizes.tolist()
    assert [packet.pos for packet in packets] == index.offsets.tolist()
    assert [packet.is_keyframe for packet in packets] == index.key.tolist()
    with av.open(BytesIO(elements[0])) as container:  # an mp4 does not say which frames nothing refers to; their type does
        shown_b = [frame.pict_type == 3 for frame in container.decode(video=0)]
    assert index.disposable[index.decode].tolist() == shown_b
    assert np.argsort(np.argsort([packet.pts for packet in packets])).tolist() == index.display.tolist()


def test_outside_and_closed(tmp_path):
    info, elements, _ = _store(FPC, gop=10, bframes=0, tmp_path=tmp_path)
    reader = FrameReader(info, elements.__getitem__, where="episode e: camera c")
    for index in (-1, FPC):
        with pytest.raises(WindowError, match=rf"episode e: camera c: frame {index} is outside \[0, 30\)"):
            reader.frames([0, index])
    assert reader.frames([]).shape == (0, 48, 64, 3)
    reader.close()
    with pytest.raises(HandleError, match="episode e: camera c: reader is closed"):
        reader.frames([0])


def test_damaged_elements_are_named(tmp_path):
    info, elements, _ = _store(FPC + 5, gop=10, bframes=3, tmp_path=tmp_path)
    good = elements[0]
    scrambled = bytearray(good)
    index = index_chunk(good)
    start = int(index.offsets[0])
    scrambled[start + 300 : start + int(index.sizes[0])] = bytes(len(scrambled[start + 300 : start + int(index.sizes[0])]))
    for bad, words in (
        (good[: len(good) // 2], "no readable H.264 sample table"),
        (b"", "no readable H.264 sample table"),
        (elements[1], "expected 30 frames, got 5"),
        (bytes(scrambled), "decode"),
    ):
        reader = FrameReader(info, lambda _, bad=bad: bad, where="episode e: camera c")
        with pytest.raises(CorruptEpisodeError, match="episode e: camera c element 0: ") as caught:
            reader.frames(range(FPC))
        assert words in str(caught.value)


def test_a_table_that_points_outside_is_refused(tmp_path):
    _, elements, _ = _store(5, gop=5, bframes=0, tmp_path=tmp_path)
    data = bytearray(elements[0])
    at = data.index(b"stco") + 12
    data[at : at + 4] = (len(data)).to_bytes(4, "big")
    with pytest.raises(VideoError, match="cut off"):
        index_chunk(bytes(data))


def test_the_cache_is_capped_in_bytes_and_shared(tmp_path):
    info, elements, reference = _store(2 * FPC, gop=10, bframes=3, tmp_path=tmp_path)
    reads = []

    def chunk(number):
        reads.append(number)
        return elements[number]

    cache = ChunkCache(max_bytes=len(elements[0]) + len(elements[1]))
    readers = [FrameReader(info, chunk, where=str(k), cache=cache) for k in range(5)]
    for reader in readers:
        assert (reader.frames([0, FPC]) == reference[[0, FPC]]).all()
        assert cache.bytes <= len(elements[0]) + len(elements[1])
    assert len(reads) == 10
    readers[-1].frames([1, FPC + 1])
    assert len(reads) == 10, "both elements of the last reader are cached"
    readers[-1].close()
    assert cache.bytes == 0

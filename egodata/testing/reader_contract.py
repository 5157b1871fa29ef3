"""What every `EpisodeReader` promises, as functions that any format's tests can call.

Each takes an open reader and what it was made from, and fails with an AssertionError that names the promise.
"""

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeDraft, EpisodeReader, read_all_numeric
from egodata.errors import EgodataError, FeatureNotFoundError, HandleError, WindowError

Frames = NDArray[np.uint8]


def check_meta(reader: EpisodeReader, draft: EpisodeDraft) -> None:
    """Attributes, calibration and names come back; cameras are added to the features."""
    meta = reader.meta
    for name in (
        "episode_id recording_id clip vendor dataset delivery operator session embodiment task_name task_description "
        "total_frames fps clock reference_camera hand_frame_convention schema_version"
    ).split():
        assert getattr(meta, name) == getattr(draft.meta, name), name
    assert {key: meta.features[key] for key in draft.meta.features} == dict(draft.meta.features)
    assert meta.cameras == tuple(sorted(draft.videos))
    assert meta.numeric_keys == tuple(sorted(draft.arrays))
    assert dict(meta.extra) == dict(draft.meta.extra)
    assert reader.calibration == draft.calibration
    for camera, source in draft.videos.items():
        info = reader.video_info(camera)
        assert (info.width, info.height, info.frames, info.fps) == (*source.size, draft.meta.total_frames, draft.meta.fps)


def check_rows(reader: EpisodeReader, draft: EpisodeDraft, *, seed: int = 0) -> None:
    """Numbers are those of the draft bit for bit, NaN included, in any window, as fresh arrays of the stored dtype."""
    total = draft.meta.total_frames
    for key, array in read_all_numeric(reader).items():
        _same_bits(array, draft.arrays[key], key)
    rng = np.random.default_rng(seed)
    keys = sorted(draft.arrays)
    for _ in range(20):
        chosen = [keys[i] for i in rng.permutation(len(keys))[:4]]
        ends = np.sort(rng.integers(0, total + 1, (len(chosen), 2)), axis=1)
        ranges = [(int(a), int(b)) for a, b in ends]
        found = reader.rows(chosen, ranges)
        assert list(found) == chosen, "keys come back in the order asked for"
        for key, (start, end) in zip(chosen, ranges, strict=True):
            _same_bits(found[key], draft.arrays[key][start:end], f"{key} [{start}, {end})")
    first = reader.rows(keys[:1], [(0, total)])[keys[0]]
    first[...] = 0
    _same_bits(reader.rows(keys[:1], [(0, total)])[keys[0]], draft.arrays[keys[0]], "a later read after writing into an earlier one")
    assert reader.rows([], []) == {}


def _same_bits(found: NDArray[np.generic], expected: NDArray[np.generic], what: str) -> None:
    assert found.dtype == expected.dtype, f"{what}: dtype {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    np.testing.assert_array_equal(found, expected, err_msg=what)
    assert found.flags.writeable, f"{what}: not a copy of one's own"


def check_frames(reader: EpisodeReader, camera: str, *, reference: Frames, seed: int = 0) -> None:
    """Frames equal a plain sequential decoding (T, H, W, 3) in any order, alone, in runs across elements, and repeated."""
    total = len(reference)
    fpc = reader.video_info(camera).frames_per_chunk
    edges = [i for k in range(0, total + 1, fpc) for i in (k - 1, k, k + 1) if 0 <= i < total]
    rng = np.random.default_rng(seed)
    requests: list[list[int]] = [[0], [total - 1], edges, [total // 2] * 3, list(range(total)), list(range(total))[::-1]]
    requests += [[int(i)] for i in rng.integers(0, total, 12)]
    requests += [[int(i) for i in rng.integers(0, total, rng.integers(2, 9))] for _ in range(12)]
    requests += [list(range(max(0, i - 3), min(total, i + 5))) for i in edges]
    for request in requests:
        found = reader.frames(camera, request)
        assert found.dtype == np.uint8
        assert found.shape == (len(request), *reference.shape[1:])
        assert (found == reference[request]).all(), f"frames {request[:10]} differ from sequential decoding"
    assert reader.frames(camera, []).shape == (0, *reference.shape[1:])


def check_annotations(reader: EpisodeReader, draft: EpisodeDraft) -> None:
    """Present, empty and absent keys are told apart; spans come back in stored order with their exact texts."""
    assert reader.annotation_keys == tuple(sorted(draft.annotations))
    assert reader.structure_keys == tuple(sorted(draft.structure))
    for key, spans in {**draft.annotations, **draft.structure}.items():
        assert reader.spans(key) == tuple(spans), key
    assert reader.spans("annotations_never_written") is None


def check_refusals(reader: EpisodeReader) -> None:
    """Unknown names and ranges outside the episode raise the named error, and name what was wrong."""
    total, camera = reader.meta.total_frames, reader.meta.cameras[0]
    key = reader.meta.numeric_keys[0]
    for bad in ((-1, 0), (0, total + 1), (2, 1), (total, total + 1)):
        with _raises(WindowError, reader.meta.episode_id, key):
            reader.rows([key], [bad])
    for index in (-1, total):
        with _raises(WindowError, reader.meta.episode_id, str(index)):
            reader.frames(camera, [0, index])
    with _raises(FeatureNotFoundError, reader.meta.episode_id, f"{key}x"):
        reader.rows([f"{key}x"], [(0, 1)])
    with _raises(FeatureNotFoundError, reader.meta.episode_id, f"images.{camera}"):
        reader.rows([f"images.{camera}"], [(0, 1)])
    for call in (
        lambda: reader.frames("no_camera", [0]),
        lambda: reader.video_info("no_camera"),
        lambda: reader.video_chunk("no_camera", 0),
    ):
        with _raises(FeatureNotFoundError, reader.meta.episode_id, "no_camera"):
            call()
    with _raises(WindowError, reader.meta.episode_id):
        reader.video_chunk(camera, reader.video_info(camera).chunks)


def check_pickling(reader: EpisodeReader, *, camera: str) -> None:
    """A pickled copy opens lazily and reads the same, whether the original was used before or not."""
    key, total = reader.meta.numeric_keys[0], reader.meta.total_frames
    frame = reader.frames(camera, [total - 1])
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.meta == reader.meta
    assert copy.digests == reader.digests
    assert (copy.frames(camera, [total - 1]) == frame).all()
    np.testing.assert_array_equal(copy.rows([key], [(0, total)])[key], reader.rows([key], [(0, total)])[key])
    copy.close()
    assert (reader.frames(camera, [total - 1]) == frame).all(), "closing a copy closed the original"


def check_inherited(reader: EpisodeReader, *, camera: str) -> None:
    """A handle inherited by fork raises HandleError instead of reading (POSIX only)."""
    reader.frames(camera, [0])
    key = reader.meta.numeric_keys[0]
    child = os.fork()
    if child == 0:  # pragma: no cover  another process
        refused = 0
        try:
            for use in (lambda: reader.frames(camera, [0]), lambda: reader.rows([key], [(0, 1)])):
                try:
                    use()
                except HandleError:
                    refused += 1
        finally:
            os._exit(0 if refused == 2 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "a reader inherited by fork was used without HandleError"


def check_closed(reader: EpisodeReader, *, camera: str) -> None:
    """Reading from a closed reader raises HandleError; closing twice is allowed. The reader is spent afterwards."""
    key = reader.meta.numeric_keys[0]
    episode_id = reader.meta.episode_id
    reader.close()
    reader.close()
    uses: tuple[Callable[[], object], ...] = (
        lambda: reader.frames(camera, [0]),
        lambda: reader.rows([key], [(0, 1)]),
        lambda: reader.video_chunk(camera, 0),
    )
    for use in uses:
        with _raises(HandleError, episode_id):
            use()


@contextmanager
def _raises(kind: type[EgodataError], *parts: str) -> Iterator[None]:
    message: str | None = None
    try:
        yield
    except kind as error:
        message = str(error)
    assert message is not None, f"expected {kind.__name__}, nothing was raised"
    missing = [part for part in parts if part not in message]
    assert not missing, f"{kind.__name__} does not name {missing}: {message}"

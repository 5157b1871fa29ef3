"""The checks that every built episode goes through inside its batch."""

from egodata.episode import EpisodeReader
from egodata.errors import EgodataError
from egodata.findings import Severity
from egodata.formats import open_store
from egodata.formats.zarr import verify_episode
from egodata.reports.validate import validate_episode
from egodata.schema.layout import SCHEMA_VERSION, StorePaths
from pipelines.history import ERROR, WARN, Verdict

EPISODE_CHECKS = {
    "schema": (ERROR, True, "the stored schema is the one that this code writes"),
    "frame_counts": (ERROR, True, "every array and camera has the frames that the episode declares"),
    "digests": (ERROR, True, "every file and every digest, computed again, is what was published"),
    "sense": (ERROR, False, "masks, rotations, time stamps and spans make sense (`egodata validate` finds no error)"),
    "calibration_present": (WARN, False, "intrinsics of every camera are known"),
    "annotation_coverage": (WARN, False, "some frames have a text to learn from"),
}
"""By name: severity, whether a failure fails the partition, and what is checked."""


def check_episode(paths: StorePaths, episode_id: str) -> list[Verdict]:
    """Run every check on the current version of an episode.

    Raises:
        EpisodeNotFoundError: There is none.
        CorruptEpisodeError: It cannot be opened at all.
    """
    damage = verify_episode(paths, episode_id)
    reader = open_store(paths, "zarr").open(episode_id)
    try:
        meta, content = reader.meta, reader.digests.content
        wrong = _wrong_lengths(reader)
        sense = [finding for finding in validate_episode(reader) if finding.severity is Severity.ERROR]
        known = set(reader.calibration.cameras) if reader.calibration else set()
        blind = sorted(set(meta.cameras) - known)
        spans = [span for key in reader.annotation_keys for span in reader.spans(key) or ()]
        covered = len({frame for span in spans for frame in range(span.start, min(span.end, meta.total_frames))})
        found = {
            "schema": (meta.schema_version == SCHEMA_VERSION, meta.schema_version),
            "frame_counts": (
                not wrong,
                f"{meta.total_frames} frames" if not wrong else f"expected {meta.total_frames}: {'; '.join(wrong)}",
            ),
            "digests": (not damage, damage[0].message if damage else content[:16]),
            "sense": (not sense, sense[0].message if sense else "no error"),
            "calibration_present": (not blind, f"unknown: {', '.join(blind)}" if blind else f"{len(known)} cameras"),
            "annotation_coverage": (covered > 0, f"{covered / max(1, meta.total_frames):.1%} of frames"),
        }
    finally:
        reader.close()
    return [
        Verdict(name, passed, value, EPISODE_CHECKS[name][0], EPISODE_CHECKS[name][1], episode_id, content)
        for name, (passed, value) in found.items()
    ]


def _wrong_lengths(reader: EpisodeReader) -> list[str]:
    """Name the arrays and cameras that cannot give every frame that the episode declares."""
    meta, wrong = reader.meta, []
    for key in meta.numeric_keys:
        try:
            got = len(reader.rows([key], [(0, meta.total_frames)])[key])
        except EgodataError as error:
            wrong.append(f"{key}: {error}")
            continue
        if got != meta.total_frames:
            wrong.append(f"{key}: {got}")
    for camera in meta.cameras:
        info = reader.video_info(camera)
        if info.frames != meta.total_frames:
            wrong.append(f"{camera}: {info.frames}")
    return wrong

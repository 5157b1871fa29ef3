"""One world, many vendors: whoever delivers it, the episode is the same in everything that their files carry."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egodata.formats.zarr import ZarrStore
from egodata.geometry.camera import project, scale_intrinsics
from egodata.geometry.pose import compose, invert, matrix_from_pose, transform_points
from egodata.geometry.rotation import angle_rad
from egodata.ingest import IngestOptions, ingest
from egodata.schema.features import SIDES
from egodata.schema.layout import StorePaths
from egodata.testing.world import WRITERS, WorldOptions, write_delivery
from egodata.testing.world.render import make_scene, render_frame
from egodata.testing.world.simulate import SimulatedEpisode, simulate_episode
from egodata.testing.world.writers import ABSENT, CARRIED, DERIVED, PARTS

POSITION_M, ROTATION_DEG, PSNR_DB = 1e-5, 0.01, 34.0
# Of this world's first episodes the one that is short and in which a hand goes missing and that has annotations.
WORLD = WorldOptions(operators=1, episodes=1, seed=13, size=(640, 360), fps=30)
SHOWN = (0, 31, 59, 60, 88)


@dataclass
class Told:
    """What one vendor's files say of the episode: the pieces that came out of ingest, and what was true."""

    vendor: str
    episode: SimulatedEpisode
    pieces: list[tuple[int, int, Any]]  # start, end, reader

    def carries(self, part: str) -> bool:
        return WRITERS[self.vendor].carries[part] == CARRIED

    def rows(self, key: str) -> np.ndarray:
        return np.concatenate([reader.rows([key], [(0, end - start)])[key] for start, end, reader in self.pieces])


def config_of(vendor: str, delivery: Path, folder: Path) -> str | None:
    if vendor == "scale":  # short pieces, so that the contract is about pieces too
        own = folder / "scale.yaml"
        own.write_text("piece_frames: [10, 60]\n")
        return str(own)
    return str(delivery / "ground_truth" / f"{vendor}.yaml") if WRITERS[vendor].config else None


@pytest.fixture(scope="module", params=sorted(WRITERS))
def told(request, tmp_path_factory):
    vendor = request.param
    folder = tmp_path_factory.mktemp(vendor)
    world = WorldOptions(**{name: getattr(WORLD, name) for name in ("operators", "episodes", "seed", "size", "fps")}, vendor=vendor)
    write_delivery(folder / "raw", world)
    report = ingest(
        folder / "raw", options=IngestOptions(vendor, folder / "store", config=config_of(vendor, folder / "raw", folder), workers=1)
    )
    assert report.status == 0 and len(report.built) == 1, report.to_json()
    store = ZarrStore(StorePaths(folder / "store"))
    readers = [store.open(name) for name in store.episode_ids()]
    pieces = sorted(((reader.meta.clip.start, reader.meta.clip.end, reader) for reader in readers), key=lambda piece: piece[0])
    yield Told(vendor, WRITERS[vendor].variant(simulate_episode(world, 0)), pieces)
    for reader in readers:
        reader.close()


def require(told, part):
    if not told.carries(part):
        pytest.skip(f"{told.vendor} files do not carry {part}: {WRITERS[told.vendor].carries[part]}")


def assert_transforms(mine: np.ndarray, true: np.ndarray) -> None:
    np.testing.assert_allclose(mine[:, :3, 3], true[:, :3, 3], atol=POSITION_M)
    assert np.rad2deg(angle_rad(mine[:, :3, :3], true[:, :3, :3]).max()) <= ROTATION_DEG


def assert_poses(mine: np.ndarray, true: np.ndarray) -> None:
    assert_transforms(matrix_from_pose(mine.astype(np.float64)), true)


def test_the_world_is_worth_the_test():
    """It has a gap in one hand, annotations, and more frames than a piece."""
    episode = simulate_episode(WORLD, 0)
    assert episode.annotated and not episode.delivered.all() and episode.frames > 60
    assert 5 <= (~episode.delivered).sum() < 20


def test_the_pieces_are_the_recording(told):
    edges = [edge for start, end, _ in told.pieces for edge in (start, end)]
    assert edges[0] == 0 and edges[-1] == told.episode.frames and edges[1:-1:2] == edges[2:-1:2]
    assert len(told.pieces) == (-(-told.episode.frames // 60) if told.vendor == "scale" else 1)
    conventions = {reader.meta.hand_frame_convention for *_, reader in told.pieces}
    assert conventions == ({"anat-v1"} if told.carries("hands") else {None})


def test_head_poses(told):
    require(told, "head")
    assert told.rows("obs_head_pose_valid").all()
    assert_poses(told.rows("obs_head_pose"), told.episode.head.world_T_head)


@pytest.mark.parametrize("hand", [0, 1], ids=SIDES)
def test_hands_and_their_validity(told, hand):
    require(told, "hands")
    side, there = SIDES[hand], told.episode.delivered[:, hand]
    true = told.episode.keypoints_m[:, hand]
    points = told.rows(f"{side}.obs_keypoints").reshape(-1, 21, 3)
    seen = np.repeat(there[:, None], 21, 1)
    seen[:, list(WRITERS[told.vendor].missing_points)] = False
    np.testing.assert_array_equal(told.rows(f"{side}.obs_keypoints_valid"), seen.all(1))
    np.testing.assert_array_equal(told.rows(f"{side}.obs_keypoints_point_valid"), seen)
    np.testing.assert_allclose(points[seen], true[seen], atol=POSITION_M)
    assert np.isnan(points[~seen]).all()
    # The simulated wrist has x right, y down, z forward on both hands, palms down: anat-v1 turns the left one by 180 degrees about z.
    rotation = told.episode.world_T_wrist[:, hand, :3, :3] @ (np.diag([-1.0, -1, 1]) if side == "left" else np.eye(3))
    for name, origin in (("obs_wrist_pose", true[:, 0]), ("obs_ee_pose", true[:, [0, 5, 9, 13, 17]].mean(axis=1))):
        np.testing.assert_array_equal(told.rows(f"{side}.{name}_valid"), there)
        assert_poses(told.rows(f"{side}.{name}")[there], compose(rotation, origin)[there])


@pytest.mark.parametrize("hand", [0, 1], ids=SIDES)
def test_arms_do_what_the_hands_did(told, hand):
    """From the arm's base through the declared calibration into the world: there the end effector is the wrist."""
    require(told, "arms")
    ((_, _, reader),) = told.pieces
    side, episode = SIDES[hand], told.episode
    world_T_base = episode.head.world_T_head[0] @ np.array(reader.calibration.arm_bases[side])
    world_T_ee = world_T_base @ matrix_from_pose(told.rows(f"{side}.obs_ee_pose").astype(np.float64))
    assert_transforms(world_T_ee, episode.world_T_wrist[:, hand])
    np.testing.assert_allclose(told.rows(f"{side}.obs_gripper")[:, 0], 1 - episode.grasp[:, hand], atol=1e-6)
    for name in ("ee_pose", "gripper", "joints"):
        assert told.rows(f"{side}.obs_{name}_valid").all() and told.rows(f"{side}.cmd_{name}_valid").all()
        np.testing.assert_allclose(told.rows(f"{side}.cmd_{name}")[:-1], told.rows(f"{side}.obs_{name}")[1:], atol=1e-6)
    turn, shoulder, elbow = told.rows(f"{side}.obs_joints").astype(np.float64)[:, :3].T  # two links of 0.55 m on a turning base
    out = 0.55 * (np.cos(shoulder) + np.cos(shoulder + elbow))
    reached = np.stack([out * np.cos(turn), out * np.sin(turn), 0.55 * (np.sin(shoulder) + np.sin(shoulder + elbow))], -1)
    np.testing.assert_allclose(reached, told.rows(f"{side}.obs_ee_pose")[:, :3], atol=POSITION_M)


def test_times(told):
    stamps, true = told.rows("obs_rgb_timestamps_ns"), told.episode.stamps_ns
    own = WRITERS[told.vendor].clock
    if told.carries("stamps"):
        np.testing.assert_array_equal(stamps - stamps[0], true - true[0])
        assert own != "unix" or stamps[0] == true[0]
    else:  # from frame 0 at a constant rate: off by the jitter of the true ones only
        assert WRITERS[told.vendor].carries["stamps"] == DERIVED and stamps[0] == 0
        assert np.abs(stamps - (true - true[0])).max() < 5e6
    clock = {"carried": own, "derived": "frame0"}[WRITERS[told.vendor].carries["stamps"]]
    assert {(reader.meta.clock, reader.meta.fps) for *_, reader in told.pieces} == {(clock, 30)}


def test_spans(told):
    keys = {"subtasks": "annotations_subtask", "task span": "annotations_task"}
    for part, key in keys.items():
        steps = [("", 0.0, 0.0)] if part == "task span" else [(step.text, step.start_s, step.end_s) for step in told.episode.steps]
        times = told.episode.times_s
        true = [(text, int(np.searchsorted(times, a - 1e-9)), int(np.searchsorted(times, b - 1e-9))) for text, a, b in steps]
        if part == "task span":
            true = [(told.episode.task, 0, told.episode.frames)]
        for start, end, reader in told.pieces:
            if not told.carries(part):
                assert key not in reader.annotation_keys
                continue
            here = [(text, max(a, start) - start, min(b, end) - start) for text, a, b in true if max(a, start) < min(b, end)]
            assert sorted((span.text, span.start, span.end) for span in reader.spans(key)) == sorted(here)


def test_texts_and_operator(told):
    for *_, reader in told.pieces:
        assert reader.meta.task_description == (told.episode.task if told.carries("task text") else "")
        assert reader.meta.operator == (told.episode.operator.id if told.carries("operator") else None)


def test_intrinsics(told):
    for *_, reader in told.pieces:
        if WRITERS[told.vendor].carries["k"] == ABSENT:
            assert reader.calibration is None
            continue
        camera = reader.calibration.cameras["front_1"]
        np.testing.assert_allclose(np.array(camera.k)[:, :3], scale_intrinsics(told.episode.k, 1, 1), atol=1e-4)
        assert camera.resolution == (640, 360)
        assert np.any(camera.distortion) == told.carries("distortion")
        np.testing.assert_allclose(camera.distortion or (0, 0, 0, 0), told.episode.distortion, atol=1e-9)


def test_frames_are_the_rendered_ones(told):
    """Colours, order, size and shape: 34 dB or better against the picture that was drawn."""
    require(told, "frames")
    scene = make_scene(told.episode)
    for start, end, reader in told.pieces:
        wanted = [frame for frame in (*SHOWN, told.episode.frames - 1) if start <= frame < end]
        stored = reader.frames("front_1", [frame - start for frame in wanted])
        for frame, picture in zip(wanted, stored, strict=True):
            error = picture.astype(np.float64) - render_frame(scene, frame)
            assert 10 * np.log10(255**2 / np.mean(error**2)) >= PSNR_DB, frame


def _white(picture: np.ndarray, u: int, v: int) -> bool:
    return bool(picture[v - 1 : v + 2, u - 1 : u + 2].min(axis=-1).max() > 180)


def test_keypoints_fall_on_the_hands_that_are_seen(told):
    """The numbers and the pictures are of one world: white dots are drawn where stored points project through the stored camera."""
    for part in ("hands", "k", "frames"):
        require(told, part)
    hits, beside, tried = 0, 0, 0
    for start, end, reader in told.pieces:
        camera = reader.calibration.cameras["front_1"]
        frames = list(range(0, end - start, 20))
        for frame, picture in zip(frames, reader.frames("front_1", frames), strict=True):
            rows = reader.rows(["obs_head_pose", "right.obs_keypoints"], [(frame, frame + 1)] * 2)
            head_T_world = invert(matrix_from_pose(rows["obs_head_pose"].astype(np.float64)))
            points = transform_points(head_T_world, rows["right.obs_keypoints"].reshape(1, 21, 3))[0]
            pixels = project(points, np.array(camera.k), camera.distortion)
            for u, v in np.rint(pixels[np.isfinite(pixels).all(1)]).astype(int):
                if 8 <= u < 632 and 8 <= v < 352:
                    tried += 1
                    hits += _white(picture, u, v)
                    beside += np.mean([_white(picture, u + du, v + dv) for du, dv in ((6, 0), (-6, 0), (0, 6), (0, -6))])
    assert tried > 60 and hits > 0.3 * tried and hits > 4 * beside  # many dots are hidden behind fingers


def test_a_robot_has_its_wrist_cameras(told):
    ((_, _, reader), *_) = told.pieces
    if told.carries("arms"):
        assert reader.meta.cameras == ("front_1", "left_wrist", "right_wrist")
        for camera in ("left_wrist", "right_wrist"):
            assert reader.frames(camera, [0]).shape == (1, 180, 320, 3)
            np.testing.assert_array_equal(told.rows(f"images.{camera}_source_row"), np.arange(told.episode.frames))
            assert told.rows(f"images.{camera}_valid").all()
    else:
        assert reader.meta.cameras == (("front_1",) if told.carries("frames") else ())


def test_the_docs_have_the_table(repository):
    """docs/vendors/one-world.md says for every vendor and part what its files carry."""
    lines = (repository / "docs/vendors/one-world.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header, rows = cells[0], {row[0]: row[1:] for row in cells[2:]}
    assert list(rows) == list(PARTS)
    for vendor, writer in WRITERS.items():
        column = header.index(vendor) - 1
        assert {part: rows[part][column] for part in PARTS} == writer.carries, vendor

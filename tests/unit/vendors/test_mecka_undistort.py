"""Undistortion as an option of ingest: the picture and K change together."""

from dataclasses import replace

import cv2
import numpy as np

from egodata.geometry.camera import project
from egodata.testing.drafts import write_source
from egodata.video import COMPACT, decode_video, encode_video

from .conftest import SIZE


def test_undistorted_frames_carry_their_own_k(mecka, tmp_path):
    plain = mecka.draft()
    own = tmp_path / "own.yaml"
    own.write_text("undistort: true\n")
    mecka.config = str(own)
    draft = mecka.draft()
    before, after = plain.calibration.cameras["front_1"], draft.calibration.cameras["front_1"]
    assert before.model == "OPENCV" and any(before.distortion) and not before.rectified
    assert (after.model, after.distortion, after.rectified, after.resolution) == ("PINHOLE", (), True, SIZE)
    assert after.k != before.k and draft.videos["front_1"].undistort == before
    assert plain.videos["front_1"].undistort is None and plain.meta == replace(draft.meta)


def test_what_is_drawn_at_a_point_is_stored_where_the_new_k_puts_it(mecka, tmp_path):
    """A white dot at the distorted pixel of a direction lands on that direction's pixel by the stored K."""
    mecka.config = str(tmp_path / "own.yaml")
    (tmp_path / "own.yaml").write_text("undistort: true\n")
    draft = mecka.draft()
    source, stored = draft.videos["front_1"], draft.calibration.cameras["front_1"]
    camera = replace(source.undistort, distortion=(-0.2, 0.05, 0.01, 0.0))  # a lens bent enough for this small picture
    directions = np.array([[0.9, 0.4, 1.0], [-0.8, -0.35, 1.0], [0.2, -0.4, 1.0]])
    dots = project(directions, np.array(camera.k), camera.distortion)
    picture = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
    for u, v in np.rint(dots * 16).astype(int):
        cv2.circle(picture, (int(u), int(v)), 2 * 16, (255, 255, 255), -1, cv2.LINE_AA, 4)
    path = write_source(tmp_path / "dots.mp4", [picture] * 3)
    bent = replace(source, path=path, rows=np.arange(3), undistort=camera)
    flat = camera.undistorted()
    (element,) = encode_video(bent, fps=draft.meta.fps, settings=COMPACT)
    (tmp_path / "out.mp4").write_bytes(element)
    shown = next(decode_video(tmp_path / "out.mp4")).mean(axis=-1)
    moved = project(directions, np.array(flat.k))
    assert np.linalg.norm(moved - dots, axis=1).max() > 1.2  # else the test would show nothing
    for u, v in moved:
        left, top = round(u) - 5, round(v) - 5
        assert left >= 0 and top >= 0
        weight = np.clip(shown[top : top + 11, left : left + 11] - 60, 0, None)
        rows, columns = np.mgrid[0 : weight.shape[0], 0 : weight.shape[1]]
        centre = np.array([(columns * weight).sum(), (rows * weight).sum()]) / weight.sum() + (left, top)
        assert np.linalg.norm(centre - (u, v)) < 0.6
    assert stored.rectified

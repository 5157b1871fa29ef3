"""Projected keypoints land on the drawn hands, with the distortion, in pixels and through the encoded video."""

import csv
import json

import cv2
import numpy as np
import pytest

from egodata.geometry.camera import project
from egodata.testing.world import WorldOptions
from egodata.testing.world.render import make_scene, render_frame, render_frames
from egodata.testing.world.simulate import simulate_episode
from egodata.video import decode_video


def dots(with_markers: np.ndarray, without: np.ndarray, *, least: float) -> np.ndarray:
    """Centres (N, 2) in pixels of what the markers add to a picture, weighted by how much."""
    added = np.clip(with_markers.astype(float) - without, 0, None).sum(axis=-1)
    count, labels = cv2.connectedComponents((added > least).astype(np.uint8))
    rows, columns = np.mgrid[: added.shape[0], : added.shape[1]]
    weights = np.bincount(labels.ravel(), added.ravel(), count)
    return np.stack([np.bincount(labels.ravel(), (added * axis).ravel(), count) / np.maximum(weights, 1) for axis in (columns, rows)], -1)[
        1:
    ]


def nearest_px(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance of each dot to the nearest expected keypoint."""
    return np.linalg.norm(found[:, None] - expected, axis=-1).min(axis=1)


def delivered_pixels(folder, frame: int, *, distorted: bool = True) -> np.ndarray:
    """Keypoints of a frame in pixels, from the delivered files alone."""
    with (folder / "hands.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if int(row["frame"]) == frame]
    x, y, z = (np.array([float(row[f"world_{axis}"]) for row in rows]) for axis in "xyz")
    value = json.loads((folder / "intrinsics.json").read_text())
    k = np.array([[value["fl_x"], 0, value["cx"]], [0, value["fl_y"], value["cy"]], [0, 0, 1]])
    return project(np.stack([-y, -z, x], -1), k, [value[name] for name in ("k1", "k2", "p1", "p2")] if distorted else ())


@pytest.mark.parametrize("size", [(640, 360), (480, 480)])
def test_drawn_joints_lie_within_a_pixel_of_the_projection(size):
    episode = simulate_episode(WorldOptions(operators=4, episodes=8, seed=1, size=size), 6)
    scene = make_scene(episode)
    distances, pinhole = [], []
    for frame in np.linspace(0, episode.frames - 1, 8).astype(int):
        found = dots(render_frame(scene, frame), render_frame(scene, frame, markers=False), least=60)
        expected = scene.hands.pixels[frame].reshape(-1, 2)
        assert len(found) > 15
        distances.append(nearest_px(found, expected))
        undistorted = project(_camera_points(episode, frame), episode.k)
        pinhole.append(nearest_px(found, undistorted))
    distances = np.concatenate(distances)
    assert np.median(distances) < 0.25
    assert np.quantile(distances, 0.8) < 1.0  # dots that are half hidden have their centre elsewhere
    assert np.median(np.concatenate(pinhole)) > 0.8


def _camera_points(episode, frame: int) -> np.ndarray:
    pose = episode.head.world_T_head[frame]
    return (episode.keypoints_m[frame].reshape(-1, 3) - pose[:3, 3]) @ pose[:3, :3]


def test_decoded_video_shows_the_joints_where_the_delivered_files_put_them(delivery, folder):
    options = WorldOptions(operators=2, episodes=3, seed=5, size=(320, 180), fps=15)
    distances = []
    for index, name in enumerate(delivery.episodes):
        episode = simulate_episode(options, index)
        plain = list(render_frames(episode, markers=False))
        shown = list(decode_video(folder / name / f"{name}_video.mp4"))
        assert len(shown) == episode.frames
        for frame in range(0, episode.frames, 9):
            if episode.delivered[frame].all():
                found = dots(shown[frame], plain[frame], least=110)
                distances.append(nearest_px(found, delivered_pixels(folder / name, frame)))
    distances = np.concatenate(distances)
    assert len(distances) > 200
    assert np.median(distances) < 1.0


def test_table_zones_lie_where_they_project():
    episode = simulate_episode(WorldOptions(operators=4, episodes=8, seed=1), 1)
    scene = make_scene(episode)
    picture = render_frame(scene, 0).astype(int)
    pose = scene.world_T_head[0]
    for zone in episode.layout.zones:
        (u, v) = project((zone.centre_m - pose[:3, 3]) @ pose[:3, :3], episode.k, (0.05324, -0.03083, 0.00722, 0.00023)).round().astype(int)
        red, green, blue = picture[v, u]
        strongest = {"red": red > 1.6 * max(green, blue), "green": green > 1.4 * max(red, blue), "blue": blue > 1.4 * max(red, green)}
        assert strongest.get(zone.colour, min(red, green) > 1.5 * blue), (zone.colour, red, green, blue)


def test_equal_options_draw_equal_pixels_and_operators_look_different():
    first, again, other = (simulate_episode(WorldOptions(operators=4, size=(160, 90)), index) for index in (0, 0, 1))
    pictures = [render_frame(make_scene(episode), 10) for episode in (first, again, other)]
    np.testing.assert_array_equal(pictures[0], pictures[1])
    assert np.abs(pictures[0].astype(int) - pictures[2]).mean() > 5

"""`egodata preview` on a real store: a delivery, ingested, looked at."""

import cv2
import numpy as np
import pytest

from egodata.cli.main import cli, run
from egodata.formats import open_store
from egodata.ingest import IngestOptions, ingest
from egodata.reports.overlay import preview_frame
from egodata.schema.layout import open_root
from egodata.testing.world import WorldOptions, read_truth, write_delivery
from egodata.testing.world.render import make_scene
from egodata.testing.world.simulate import simulate_episode
from egodata.video import scan_video

OPTIONS = WorldOptions(operators=1, episodes=1, seed=8, size=(320, 180), fps=10)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store with one synthetic episode, its id, and its delivery."""
    folder = tmp_path_factory.mktemp("preview")
    summary = write_delivery(folder / "delivery", OPTIONS)
    ingest(folder / "delivery", options=IngestOptions(vendor="mecka", store=folder / "store", workers=1))
    return folder / "store", summary.episodes[0], summary.path


def preview(*args):
    return run(cli, ["preview", *map(str, args)], program="egodata")


def test_video_and_sheet(stored, tmp_path, capsys):
    store, episode, _ = stored
    assert preview(store, episode, "-o", tmp_path / "out.mp4", "--sheet", tmp_path / "sheet.png", "--frames", "3:9") == 0
    said = capsys.readouterr().out
    assert "6 frames" in said
    assert "contact sheet" in said
    assert scan_video(tmp_path / "out.mp4").frames == 6
    assert cv2.imread(str(tmp_path / "sheet.png")).shape[1] > 1400


def test_a_sheet_alone_writes_no_video_and_the_default_is_a_video_here(stored, tmp_path, monkeypatch):
    store, episode, _ = stored
    monkeypatch.chdir(tmp_path)
    assert preview(store, episode, "--sheet", "sheet.png") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]
    assert preview(store, episode, "--frames", ":2") == 0
    assert (tmp_path / f"{episode}.mp4").is_file()


def test_the_overlay_of_a_stored_episode_sits_on_the_simulated_hands(stored):
    store, name, delivery = stored
    truth, _ = read_truth(delivery / "ground_truth" / f"{name}.npz")
    reader = open_store(open_root(store), "zarr").open(name)
    scene = make_scene(simulate_episode(OPTIONS, 0))
    frame = int(np.flatnonzero(truth["delivered"].all(axis=1))[0])
    picture = preview_frame(reader, frame).astype(int)
    (stored_frame,) = reader.frames("front_1", [frame])
    reader.close()
    scale = picture.shape[1] // OPTIONS.size[0]
    plain = cv2.resize(stored_frame, (picture.shape[1], picture.shape[0]), interpolation=cv2.INTER_CUBIC).astype(int)
    drawn = np.abs(picture - plain).max(axis=-1) > 40
    joints = ((scene.hands.pixels[frame].reshape(-1, 2) + 0.5) * scale - 0.5).round().astype(int)
    assert np.mean([drawn[y, x] or picture[y, x].min() > 200 for x, y in joints]) > 0.9


@pytest.mark.parametrize(
    ("args", "message"),
    [(("--frames", "5"), "expected START:END"), (("--camera", "front"), "did you mean front_1"), (("--frames", "9:5"), "empty or outside")],
)
def test_wrong_use_is_status_2(stored, tmp_path, capsys, args, message):
    store, episode, _ = stored
    assert preview(store, episode, "-o", tmp_path / "p.mp4", *args) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_episode_is_status_2(stored, tmp_path, capsys):
    assert preview(stored[0], "nobody", "-o", tmp_path / "p.mp4") == 2
    assert "nobody" in capsys.readouterr().err

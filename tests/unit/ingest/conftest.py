"""A delivery of three twelve-frame recordings, and a store."""

import pytest

from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import StorePaths
from egodata.testing.drafts import moving_frames, write_source
from egodata.video import EncodeSettings
from tests.unit.vendors.conftest import FRAMES, SIZE, MeckaFiles

IDS = tuple(f"5f0c0000000000000000000{i}" for i in range(3))
FAST = EncodeSettings(profile="test", crf=30, preset="ultrafast", tune="", gop=12, bframes=0)


@pytest.fixture(scope="session")
def video(tmp_path_factory):
    path = write_source(tmp_path_factory.mktemp("video") / "video.mp4", moving_frames(FRAMES, SIZE, 3))
    return path.read_bytes()


@pytest.fixture
def raw(tmp_path, video):
    return {identity: MeckaFiles(tmp_path / "raw", identity, video=video).write() for identity in IDS}


class Bench:
    """A store and what to say to ingest."""

    def __init__(self, tmp_path):
        self.raw = tmp_path / "raw"
        self.paths = StorePaths(tmp_path / "store")

    def options(self, **more):
        return IngestOptions("mecka", self.paths.root, **{"workers": 0, "settings": FAST, **more})

    def __call__(self, **more):
        return ingest(self.raw, options=self.options(**more))


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)

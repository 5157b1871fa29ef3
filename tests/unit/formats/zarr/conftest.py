"""A store with one small published episode per test."""

import pytest

from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(frames_per_chunk=50, gop=12, bframes=3)
ID = "5f0c00000000000000000001"


@pytest.fixture(scope="session")
def draft(tmp_path_factory):
    """130 frames, one camera, both annotation roles."""
    return small_draft(tmp_path_factory.mktemp("draft"), episode_id=ID)


@pytest.fixture
def paths(tmp_path):
    """An empty store."""
    return open_root(tmp_path / "store", create=True)


@pytest.fixture
def published(paths, draft):
    """The store and the digests of its episode."""
    return paths, publish_draft(paths, draft, settings=SETTINGS)


@pytest.fixture
def reader(published):
    """The episode, opened."""
    opened = ZarrStore(published[0]).open(ID)
    yield opened
    opened.close()

"""A small delivery that several tests look at."""

from pathlib import Path

import pytest

from egodata.testing.world import DeliverySummary, WorldOptions, write_delivery

SMALL = WorldOptions(operators=2, episodes=3, seed=5, size=(320, 180), fps=15)


@pytest.fixture(scope="session")
def delivery(tmp_path_factory: pytest.TempPathFactory) -> DeliverySummary:
    """Three sound recordings of two operators."""
    return write_delivery(tmp_path_factory.mktemp("world") / "delivery", SMALL)


@pytest.fixture(scope="session")
def folder(delivery: DeliverySummary) -> Path:
    """Folder of that delivery."""
    return delivery.path

import hashlib
from collections.abc import Callable, Iterable

import pytest

from egodata.catalog.rows import CatalogRow
from egodata.catalog.rules import DatasetRule, checked_rule


def make_row(episode_id: str, **changes) -> CatalogRow:
    values = {
        "episode_id": episode_id,
        "recording_id": episode_id,
        "clip_index": 0,
        "aliased": False,
        "vendor": "mecka",
        "dataset": "spring",
        "delivery": "d1",
        "operator": "mecka/a",
        "session": None,
        "task_name": "fold_clothes",
        "embodiment": "human_bimanual",
        "n_frames": 100,
        "fps_num": 30,
        "fps_den": 1,
        "content": hashlib.sha256(f"content {episode_id}".encode()).hexdigest(),
        "media": hashlib.sha256(f"media {episode_id}".encode()).hexdigest(),
        "annotation_keys": (),
        "cameras": ("front_1",),
        "has_calibration": True,
    }
    return CatalogRow(**{**values, **changes})


@pytest.fixture
def row() -> Callable[..., CatalogRow]:
    return make_row


@pytest.fixture
def rows() -> list[CatalogRow]:
    """Twelve episodes of three operators: a has 6, b has 4, c has 2."""
    owners = "aaaaaabbbbcc"
    return [make_row(f"ep{i:02d}", operator=f"mecka/{owner}", n_frames=50 + i) for i, owner in enumerate(owners)]


@pytest.fixture
def rule() -> Callable[..., DatasetRule]:
    def make(heads: Iterable[str] = ("train", "seen", "unseen_operator"), **changes) -> DatasetRule:
        values = {"name": "set", "valid_ratio": 0.2 if "seen" in heads else 0.0}
        if "unseen_operator" in heads and "held_out" not in changes:
            values["held_out_operators"] = ("mecka/b",)
        return checked_rule(DatasetRule(**{**values, "heads": tuple(heads), **changes}))

    return make

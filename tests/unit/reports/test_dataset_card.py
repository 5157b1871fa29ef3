import base64
import re
from dataclasses import replace

import cv2
import numpy as np
import pytest

from egodata.annotations import Span
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.reports.dataset_card import card_page, gather, write_card
from egodata.reports.page import band, bars
from egodata.schema.layout import open_root
from egodata.testing.memory import MemoryStore, ramp_joints


@pytest.fixture
def store():
    made = {f"j{i}": ramp_joints(f"j{i}", frames=40 + i) for i in range(8)}
    made["j0"].annotations["annotations_subtask"] = (Span("a", 0, 10), Span("b", 5, 20))
    made["j1"].annotations["annotations_subtask"] = ()
    return MemoryStore(made)


@pytest.fixture
def manifest(store):
    def head(*numbers):
        return tuple(
            HeadEpisode(f"j{i}", 40 + i, store.episodes[f"j{i}"].digests.content, operator=f"lab/<{'ab'[i % 2]}>") for i in numbers
        )

    heads = {"train": head(0, 1, 2, 3, 4, 5), "seen": head(6, 7)}
    parent = {"version": "v0", "digest": "e" * 64, "difference": {"lines": ["1 added: j7 (seen)"]}}
    provenance = {"created": "2026-01-01T00:00:00+00:00", "format": "zarr", "left_out": {"min_frames": 3}, "parent": parent}
    rule = {"where": {"vendor": ["lab"]}, "min_frames": 30, "exclusions": []}
    return Manifest("set", "v1", "d" * 64, heads, {"seen": ("j7",), "train": ("j0",)}, provenance, rule, held_out_operators=("lab/<b>",))


def test_facts_of_the_episodes(store, manifest):
    found = gather(manifest, store)
    assert dict(found.looked) == {"train": 6, "seen": 2}
    assert dict(found.tasks) == {("train", "t"): 6, ("seen", "t"): 2}
    subtask = found.coverage["train", "annotations_subtask"]
    assert (subtask.episodes, subtask.spans, subtask.frames) == (2, 2, 20)
    assert [(head, pin, camera, len(pictures)) for head, pin, camera, pictures in found.pins] == [
        ("seen", "j7", "front_1", 4),
        ("train", "j0", "front_1", 4),
    ]
    assert sum(gather(manifest, store, looked_at=4).looked.values()) == 4


def test_page(store, manifest, tmp_path):
    text = card_page(manifest, gather(manifest, store))
    for part in (
        "Dataset set@v1",
        "d" * 64,
        "lab/&lt;b&gt; (held out)",
        "Follows version v0: 1 added: j7 (seen)",
        "Left out: 3 (min_frames)",
        "7.8% (2 episodes, 2 spans)",
        "absent",
        "{&quot;vendor&quot;: [&quot;lab&quot;]}",
    ):
        assert part in text, part
    assert "lab/<b>" not in text and "exclusions" not in text
    pictures = re.findall(r"base64,([^\"]+)", text)
    assert len(pictures) == 8
    shown = cv2.imdecode(np.frombuffer(base64.b64decode(pictures[3]), np.uint8), cv2.IMREAD_COLOR)
    assert shown.shape[1] == 240
    assert abs(float(shown[..., 2].mean()) - 46) < 3  # the last of 47 frames is painted 46 in red
    path = write_card(open_root(tmp_path / "store", create=True), manifest, store=store)
    assert path.name == "card.html" and path.read_text() == text


def test_what_cannot_be_opened_is_named(store, manifest):
    lost = replace(manifest.head("seen")[1], content="0" * 64)
    gone = replace(manifest, heads={**manifest.heads, "seen": (manifest.head("seen")[0], lost)})
    text = card_page(gone, gather(gone, store))
    assert "1 episodes could not be opened: j7" in text


def test_drawings_survive_nothing_and_one_value():
    assert "<svg" in bars([], []) and "<svg" in bars(["0"], [("red", [0])])
    assert band([None], [None], high=[None]) == ""
    assert "<polygon" in band([1.0, None], [1.0, None], high=[1.0, None])

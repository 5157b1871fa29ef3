"""A batch moves to its device whole, images as uint8."""

import torch

from egodata.catalog.manifest import HeadEpisode
from egodata.sampling import HeadSource, load_recipe
from egodata.testing.memory import MemoryStore, ramp_hands
from egodata.torch import batch_to_device, collate


def test_every_tensor_moves_and_texts_stay():
    episode = ramp_hands("a", frames=9)
    head = [HeadEpisode("a", 9, episode.digests.content)]
    batch = collate(HeadSource(head, MemoryStore({"a": episode}), recipe=load_recipe("human_wrist6d")).samples([0, 5]))
    moved = batch_to_device(batch, "meta")  # a device that cannot be mistaken for the one where it was
    assert list(moved) == list(batch)
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            assert moved[name].is_meta
            assert (moved[name].dtype, moved[name].shape) == (value.dtype, value.shape)
        elif isinstance(value, dict):
            assert value.keys() == moved[name].keys()
            assert all(one.is_meta for one in moved[name].values())
        else:
            assert moved[name] == value
    assert moved["images"]["front_1"].dtype == torch.uint8
    assert torch.equal(batch_to_device(batch, "cpu")["action"], batch["action"])

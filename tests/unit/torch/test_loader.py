"""The loader's stream depends on seed and epoch only."""

import hashlib

import numpy as np
import pytest
import torch

from egodata.annotations import SUBTASK, Span
from egodata.catalog.manifest import HeadEpisode
from egodata.errors import InputError, SampleError
from egodata.sampling import HeadSource, epoch_order, load_recipe
from egodata.testing.memory import MemoryStore, ramp_hands
from egodata.torch import SourcesDataset, make_loader


def make_source(*, seed=0, broken=frozenset()):
    episodes = [ramp_hands("a", frames=23), ramp_hands("b", frames=17, seed=1)]
    episodes[0].annotations = {SUBTASK: [Span("one", 0, 23), Span("two", 0, 23)]}
    episodes[1].broken_frames = broken
    heads = [HeadEpisode(e.meta.episode_id, e.meta.total_frames, e.digests.content) for e in episodes]
    store = MemoryStore({e.meta.episode_id: e for e in episodes})
    return HeadSource(heads, store, recipe=load_recipe("human_wrist6d"), seed=seed)


def digest(batch):
    parts = [repr((batch["episode_id"], batch["prompt"], batch["prompts"], batch["embodiment"])).encode()]
    for value in batch.values():
        for tensor in value.values() if isinstance(value, dict) else [value]:
            if isinstance(tensor, torch.Tensor):
                parts.append(tensor.numpy().tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def stream(loader, epoch, **options):
    loader.set_epoch(epoch, **options)
    return [digest(batch) for batch in loader]


def test_a_batch_holds_the_samples_of_the_epochs_order():
    source = make_source(seed=3)
    loader = make_loader(source, batch_size=8)
    loader.set_epoch(2)
    order = epoch_order(40, seed=3, epoch=2)
    assert len(loader) == 5
    for number, batch in enumerate(loader):
        samples = source.samples(order[8 * number : 8 * number + 8], epoch=2)
        assert batch["episode_id"] == [s.episode_id for s in samples]
        assert batch["frame"].tolist() == [s.frame for s in samples]
        assert batch["prompt"] == [s.prompt for s in samples]
        assert batch["images"]["front_1"].shape == (8, 1, 4, 6, 3)
        assert batch["images"]["front_1"].dtype == torch.uint8
        for name in ("action", "action_mask", "proprio", "proprio_mask", "arm_valid", "reference"):
            np.testing.assert_array_equal(batch[name].numpy(), np.stack([getattr(s, name) for s in samples]))
        assert batch["fps"].tolist() == [30.0] * 8


def test_two_spawned_workers_give_the_stream_of_none_over_two_epochs():
    alone, spawned = make_loader(make_source(), batch_size=4), make_loader(make_source(), batch_size=4, num_workers=2)
    first, second = stream(alone, 0), stream(alone, 1)
    assert first != second
    assert stream(spawned, 0) == first
    assert stream(spawned, 1) == second
    spawned.set_epoch(1)
    next(iter(spawned))  # left early, as when training stops in the middle of an epoch
    assert stream(spawned, 0, start_batch=7) == first[7:]


def test_a_resumed_epoch_goes_on_exactly():
    loader = make_loader(make_source(), batch_size=4)
    whole = stream(loader, 5)
    for start in range(len(whole) + 1):
        assert stream(make_loader(make_source(), batch_size=4), 5, start_batch=start) == whole[start:]
    with pytest.raises(InputError, match=r"start_batch 11 is outside \[0, 10\]"):
        loader.set_epoch(5, start_batch=11)


def test_evaluation_reads_the_given_samples_in_order_every_epoch():
    source = make_source()
    loader = make_loader(source, batch_size=3, indices=source.evaluation_indices(per_episode=2))
    loader.set_epoch(9)
    batches = list(loader)
    assert [frame for batch in batches for frame in batch["frame"].tolist()] == [0, 22, 0, 16]
    assert batches[0]["prompt"] == ["one", "one", ""]


def test_a_loader_does_not_touch_the_runs_random_state():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    list(make_loader(make_source(), batch_size=4))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failure_in_a_worker_names_episode_and_frame(workers):
    loader = make_loader(make_source(broken=frozenset({5})), batch_size=4, num_workers=workers)
    with pytest.raises(SampleError, match="episode b frame 5"):
        list(loader)


def test_nothing_to_read_is_an_error():
    with pytest.raises(InputError, match="40 samples make no batch of 64"):
        make_loader(make_source(), batch_size=64)


def test_a_dataset_reads_single_keys_and_keeps_the_order_of_a_batch_over_two_epochs():
    dataset = SourcesDataset((make_source(),), with_images=False)
    assert dataset[0, 3, 0].frame == 3
    assert dataset[0, 3, 0].images == {}
    found = dataset.__getitems__([(0, 5, 1), (0, 4, 2), (0, 3, 1)])
    assert [sample.frame for sample in found] == [5, 4, 3]
    assert [sample.draw for sample in found] == [(0, 1, 5), (0, 2, 4), (0, 1, 3)]

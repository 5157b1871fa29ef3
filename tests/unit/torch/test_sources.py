"""Loaders over several heads, over runs, over ranks; and what happens when workers die, hang, or have no shared memory."""

import hashlib
import os
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from egodata.annotations import SUBTASK, Span
from egodata.catalog.manifest import HeadEpisode
from egodata.errors import InputError, RecipeError, WorkerError
from egodata.sampling import BlockOrder, HeadSource, Mixture, MixturePart, Share, load_recipe
from egodata.testing.memory import MemoryStore, ramp_hands, ramp_joints
from egodata.torch import Loading, make_loader
from egodata.torch.guard import worker_failure

BLOCKS = BlockOrder(run_frames=8, open_runs=2, lanes=2)


def make_source(names="ab", *, seed=0, recipe="human_wrist6d", frames=40):
    lengths = {name: frames + 3 * number for number, name in enumerate(names)}
    if recipe == "joints":
        episodes = [ramp_joints(name, frames=length) for name, length in lengths.items()]
    else:
        episodes = [ramp_hands(name, frames=length, seed=number) for number, (name, length) in enumerate(lengths.items())]
    if recipe != "joints":
        episodes[0].annotations = {SUBTASK: [Span("one", 0, 23), Span("two", 0, 23)]}
    heads = [HeadEpisode(e.meta.episode_id, e.meta.total_frames, e.digests.content) for e in episodes]
    return HeadSource(heads, MemoryStore({e.meta.episode_id: e for e in episodes}), recipe=load_recipe(recipe), seed=seed)


def rows(batch):
    """One digest per sample: episode, frame, prompt and every number."""
    out = []
    for at, episode in enumerate(batch["episode_id"]):
        digest = hashlib.sha256(repr((episode, batch["prompt"][at])).encode())
        for value in batch.values():
            for tensor in value.values() if isinstance(value, dict) else [value]:
                if isinstance(tensor, torch.Tensor):
                    digest.update(tensor[at].numpy().tobytes())
        out.append((episode, int(batch["frame"][at]), digest.hexdigest()))
    return out


def stream(loader, epoch=0, **options):
    loader.set_epoch(epoch, **options)
    return [rows(batch) for batch in loader]


def test_block_order_gives_the_samples_that_uniform_order_gives():
    source = make_source()
    uniform = {row for batch in stream(make_loader(source, batch_size=1)) for row in batch}
    blocks = [row for batch in stream(make_loader(source, batch_size=4, loading=Loading(blocks=BLOCKS))) for row in batch]
    assert len(set(blocks)) == len(blocks) == 83 // 8 * 8 and set(blocks) <= uniform


def test_a_run_is_decoded_once():
    loader = make_loader(make_source(), batch_size=4, loading=Loading(blocks=BLOCKS))
    stream(loader)
    assert loader._loader.dataset.runs.decoded <= (5 + 6) + 2, "two lanes share at most the run at their border"


@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["uniform", "blocks"])
def test_workers_and_resuming_change_nothing(blocks):
    loading = Loading(blocks=blocks)
    whole = stream(make_loader(make_source(), batch_size=4, loading=loading), 3)
    spawned = make_loader(make_source(), batch_size=4, num_workers=2, loading=loading)
    assert stream(spawned, 3) == whole
    spawned.set_epoch(3)
    walk = iter(spawned)
    assert [rows(next(walk)) for _ in range(5)] == whole[:5]
    again = make_loader(make_source(), batch_size=4, loading=loading)
    again.load_state_dict(spawned.state_dict())
    assert [rows(batch) for batch in again] == whole[5:]


@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["uniform", "blocks"])
def test_two_ranks_read_other_samples_and_make_equally_many_steps(blocks):
    parts = [stream(make_loader(make_source(), batch_size=4, loading=Loading(share=Share(rank, 2), blocks=blocks)), 1) for rank in (0, 1)]
    assert len(parts[0]) == len(parts[1]) == 83 // (16 if blocks else 8) * (2 if blocks else 1)
    read = [row for part in parts for batch in part for row in batch]
    assert len(set(read)) == len(read)


def test_evaluation_is_read_whole_by_every_rank():
    source = make_source()
    indices = source.evaluation_indices(per_episode=3)
    parts = [stream(make_loader(source, batch_size=4, indices=indices, loading=Loading(share=Share(rank, 2)))) for rank in (0, 1)]
    assert parts[0] == parts[1] and sum(len(batch) for batch in parts[0]) == len(indices)


def test_what_no_rank_reads_is_counted():
    assert make_loader(make_source(), batch_size=4).left_out == 3
    assert make_loader(make_source(), batch_size=4, loading=Loading(share=Share(0, 4))).left_out == 83 % 16
    assert make_loader(make_source(), batch_size=4, loading=Loading(blocks=BLOCKS)).left_out == 83 % 8


def test_a_mixture_reads_each_head_by_its_weight():
    mixture = Mixture((MixturePart("big", make_source("ab")), MixturePart("small", make_source("c", seed=1), 2.0)), samples_per_epoch=60)
    loader = make_loader(mixture, batch_size=6)
    read = [row for batch in stream(loader) for row in batch]
    assert len(read) == 60 and sum(episode == "c" for episode, _, _ in read) == 40
    assert stream(make_loader(mixture, batch_size=6, num_workers=1)) == stream(loader)


def test_bodies_mix_per_batch_only():
    hands, joints = MixturePart("hands", make_source()), MixturePart("joints", make_source("xy", recipe="joints"))
    with pytest.raises(RecipeError, match="mixture: joints has .* Mix them per batch"):
        Mixture((hands, joints))
    loader = make_loader(Mixture((hands, joints), per_batch=True), batch_size=4)
    bodies = [set(batch["embodiment"]) for batch in loader]
    assert all(len(found) == 1 for found in bodies) and len({tuple(found) for found in bodies}) == 2


def test_options_that_do_not_go_together_are_refused():
    source = make_source()
    mixture = Mixture((MixturePart("a", source),))
    with pytest.raises(InputError, match="a mixture is for training in uniform order"):
        make_loader(mixture, batch_size=4, indices=[1])
    with pytest.raises(InputError, match="2 lanes of block order do not divide among 3 workers.*Use 1, 2 workers"):
        make_loader(source, batch_size=4, num_workers=3, loading=Loading(blocks=BLOCKS))
    with pytest.raises(InputError, match="equally many steps only if"):
        make_loader(source, batch_size=4, drop_last=False, loading=Loading(share=Share(0, 2)))
    with pytest.raises(InputError, match="83 samples make no batch of 2 x 64"):
        make_loader(source, batch_size=64, loading=Loading(share=Share(0, 2)))
    with pytest.raises(InputError, match="different names"):
        Mixture((MixturePart("a", source), MixturePart("a", source)))
    with pytest.raises(InputError, match="weight 0.0"):
        Mixture((MixturePart("a", source, 0.0),))


def test_too_little_shared_memory_is_said_before_workers_start(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=64_000_000))
    with pytest.raises(InputError, match=r"8 workers need .* MB of shared memory .*has 64 MB free"):
        make_loader(make_source(frames=400), batch_size=700, num_workers=8, drop_last=False, loading=Loading(shared_memory=tmp_path))
    make_loader(make_source(), batch_size=4, num_workers=8, loading=Loading(shared_memory=tmp_path))


class StuckStore(MemoryStore):
    """A store one of whose episodes blocks for ever on a pipe that nobody writes to, as a dead network mount does."""

    pipe: str

    def open(self, episode_id, *, content=None):
        reader = super().open(episode_id, content=content)
        if episode_id == "b":
            reader.frames = self._block
        return reader

    def _block(self, camera, indices):
        with open(self.pipe, "rb") as pipe:
            return np.frombuffer(pipe.read(), np.uint8)


def stuck_loader(folder, *, timeout_s):
    os.mkfifo(folder / "pipe")
    episodes = [ramp_hands(name, frames=20, seed=number) for number, name in enumerate("ab")]
    heads = [HeadEpisode(e.meta.episode_id, e.meta.total_frames, e.digests.content) for e in episodes]
    store = StuckStore({e.meta.episode_id: e for e in episodes})
    store.pipe = str(folder / "pipe")
    source = HeadSource(heads, store, recipe=load_recipe("human_wrist6d"))
    return make_loader(source, batch_size=2, num_workers=1, indices=[0, 1, 2, 3, 25, 26], loading=Loading(timeout_s=timeout_s))


@pytest.mark.slow
def test_a_stuck_read_ends_in_an_error_within_the_stated_time(tmp_path):
    loader = stuck_loader(tmp_path, timeout_s=15)
    with pytest.raises(WorkerError, match=r"epoch 0 batch 2 \(episodes b frame 5, b frame 6, ...\): no worker answered within 15 s"):
        list(loader)


def test_a_killed_worker_is_an_error_that_says_where(tmp_path):
    loader = stuck_loader(tmp_path, timeout_s=100)
    batches = iter(loader)
    next(batches), next(batches)
    (worker,) = loader._loader._iterator._workers
    threading.Timer(1.0, os.kill, (worker.pid, signal.SIGKILL)).start()
    with pytest.raises(WorkerError, match=r"epoch 0 batch 2 \(episodes b frame 5.*a loader worker was killed \(Killed\)"):
        next(batches)


def test_other_errors_are_left_alone():
    assert worker_failure(RuntimeError("CUDA out of memory"), where="x", timeout_s=1.0) is None
    bus = worker_failure(RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible"), where="x", timeout_s=1.0)
    assert "shared memory is full" in str(bus)


def test_each_training_sample_says_what_its_draws_follow_from():
    loader = make_loader(make_source(seed=5), batch_size=4, loading=Loading(with_images=False))
    loader.set_epoch(3)
    order = loader._batches.keys(3)[:8, 1].tolist()
    batches = [batch for batch, _ in zip(loader, range(2), strict=False)]
    assert [draw for batch in batches for draw in batch["draws"]] == [(5, 3, index) for index in order]
    (evaluated,) = make_loader(make_source(), batch_size=2, indices=[1, 2], loading=Loading(with_images=False))
    assert evaluated["draws"] == [None, None]

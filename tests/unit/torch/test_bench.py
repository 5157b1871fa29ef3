"""What `egodata bench` measures: the very batches of training, where their time goes, and what follows for workers."""

import os
import time
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
import torch

from egodata.annotations import SUBTASK, Span
from egodata.catalog.manifest import HeadEpisode
from egodata.errors import InputError
from egodata.sampling import HeadSource, load_recipe
from egodata.sampling.cache import EpisodeCache
from egodata.testing.memory import MemoryEpisode, MemoryStore, ramp_hands
from egodata.torch import collate
from egodata.torch.bench import STAGES, measure_stages, random_batches, staged_batch, workers_needed
from egodata.torch.bench_workers import measure_workers
from egodata.torch.process import anonymous_bytes, cpu_s, pss_bytes, read_bytes

RECIPE = load_recipe("human_wrist6d")


class Half:
    """A normaliser that cannot be mistaken for none."""

    def forward(self, values, valid):
        return np.where(valid, values / 2 + 1, np.float32(0)).astype(np.float32)

    def inverse(self, values):
        return (values - 1) * 2


@dataclass
class Busy(MemoryEpisode):
    """An episode whose every decoding call takes 20 ms of CPU."""

    def frames(self, camera, indices):
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        return super().frames(camera, indices)


def make(kind=MemoryEpisode):
    episodes = []
    for number, frames in enumerate((23, 17)):
        ramp = ramp_hands(f"e{number}", frames=frames, seed=number)
        episodes.append(kind(ramp.meta, ramp.arrays))
    episodes[0].annotations = {SUBTASK: [Span("one", 0, 20), Span("two", 3, 23)]}
    head = [HeadEpisode(e.meta.episode_id, e.meta.total_frames, e.digests.content) for e in episodes]
    store = MemoryStore({e.meta.episode_id: e for e in episodes})
    source = HeadSource(head, store, recipe=RECIPE, seed=4, normalisers={"action": Half(), "proprio": Half()})
    return source, EpisodeCache(store, RECIPE)


def test_stage_by_stage_gives_the_batch_of_training():
    source, readers = make()
    clock = dict.fromkeys(STAGES, 0.0)
    for epoch, indices in islice(random_batches(source, batch_size=16), 3):
        staged = staged_batch(source, readers, indices=indices, epoch=epoch, clock=clock)
        whole = collate(source.samples(indices.tolist(), epoch=epoch))
        assert staged.keys() == whole.keys()
        for name, value in whole.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(staged[name], value), name
            elif isinstance(value, dict):
                assert all(torch.equal(staged[name][camera], one) for camera, one in value.items()), name
            else:
                assert staged[name] == value, name
    assert all(spent > 0 for spent in clock.values())


def test_time_is_booked_to_the_stage_that_spends_it():
    source, readers = make(Busy)
    costs = measure_stages(source, readers, batch_size=8, samples=16)
    assert costs.samples == 16
    per_sample_ms = 2 * 20 / 8  # two episodes per batch of 8
    assert costs.cpu_ms["decode"] >= 0.8 * per_sample_ms
    assert costs.total_cpu_ms >= 0.8 * per_sample_ms
    assert sum(costs.cpu_ms[stage] for stage in STAGES if stage != "decode") < 0.5 * costs.cpu_ms["decode"]


def test_batches_are_random_whole_and_without_end():
    source, _ = make()
    found = list(islice(random_batches(source, batch_size=16), 5))
    assert [epoch for epoch, _ in found] == [0, 0, 1, 1, 2]
    assert all(len(indices) == 16 for _, indices in found)
    assert len({*found[0][1].tolist(), *found[1][1].tolist()}) == 32
    with pytest.raises(InputError, match="bench: 40 samples make no batch of 41"):
        next(random_batches(source, batch_size=41))


@pytest.mark.parametrize(
    ("cpu_ms", "batch", "step_ms", "cores", "workers", "fits"),
    [(2.5, 64, 100, 8, 2, True), (2.5, 64, 160, 8, 1, True), (2.5, 64, 159, 2, 2, False), (0.1, 1, 1000, 1, 1, False)],
)
def test_workers_for_a_step(cpu_ms, batch, step_ms, cores, workers, fits):
    need = workers_needed(cpu_ms, batch_size=batch, step_ms=step_ms, cores=cores)
    assert (need.workers, need.fits) == (workers, fits)
    assert need.samples_per_s == pytest.approx(batch / step_ms * 1000)
    shortest = workers_needed(cpu_ms, batch_size=batch, step_ms=need.best_step_ms, cores=cores)
    assert shortest.workers == max(1, cores - 1)


def test_a_loader_is_measured_in_steady_state():
    source, _ = make()
    seen = []
    run = measure_workers(source, batch_size=8, workers=0, samples=100, each=lambda samples, children: seen.append((samples, children)))
    assert run.samples == 104
    assert seen == [(8 * turn, []) for turn in range(1, 14)]
    assert run.worker_pss_bytes == ()
    assert run.worker_cpu_ms == 0
    assert run.samples_per_s > 0
    assert run.own_pss_bytes == pytest.approx(pss_bytes(os.getpid()), rel=0.1)


def test_worker_processes_are_found_and_end():
    source, _ = make()
    pids = []
    run = measure_workers(source, batch_size=8, workers=1, samples=16, each=lambda _, children: pids.extend(children))
    assert (run.workers, len(run.worker_pss_bytes), len(set(pids))) == (1, 1, 1)
    assert 50e6 < run.worker_pss_bytes[0] < 450e6
    assert set(pids) != {os.getpid()}
    assert cpu_s(pids[0]) is None or pss_bytes(pids[0]) is None  # gone, or a zombie without memory


def test_the_kernels_numbers_follow_what_a_process_does(tmp_path):
    before, anonymous, read = pss_bytes(os.getpid()), anonymous_bytes(os.getpid()), read_bytes()
    block = np.ones(64 * 2**20, np.uint8)
    assert pss_bytes(os.getpid()) - before > 60 * 2**20
    assert 60 * 2**20 < anonymous_bytes(os.getpid()) - anonymous < 80 * 2**20
    (tmp_path / "file").write_bytes(block[: 2**20].tobytes())
    assert (tmp_path / "file").read_bytes()[:1] == b"\1"
    assert 2**20 <= read_bytes() - read < 2**21
    own = cpu_s(os.getpid())
    assert own == pytest.approx(time.process_time(), abs=0.2)
    assert pss_bytes(2**31 - 1) is None and cpu_s(2**31 - 1) is None

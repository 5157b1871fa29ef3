import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from egodata.catalog import load_dataset
from egodata.sampling import HeadSource, epoch_order, load_recipe
from egotrain.build import fit
from egotrain.conf import DataConfig
from egotrain.data import TrainStream, rank_loader
from egotrain.ranks import Ranks
from egotrain.runs import MetricsFile
from tests.unit.egotrain.conftest import QUICK

DATA = DataConfig(batch_size=4, num_workers=0, normalisation="quantile", image_height=24, image_width=32, colour_jitter=0.0)


@pytest.fixture(scope="module")
def train(small_store):
    manifest = load_dataset(small_store, "small@v1")
    source = HeadSource.open(small_store, manifest, head="train", recipe=load_recipe("human_wrist6d"), format="zarr", seed=3)
    yield source
    source.close()


def seen(source, ranks, steps, start=0):
    stream = TrainStream(rank_loader(source, DATA, ranks=ranks), start_step=start, max_steps=steps)
    return [list(zip(batch["episode_id"], batch["frame"].tolist(), strict=True)) for batch in stream]


def test_ranks_share_the_documented_order_side_by_side(train):
    order = epoch_order(len(train), seed=3, epoch=0)
    each = len(train) // 8
    parts = [seen(train, Ranks(rank, 2), each + 2) for rank in (0, 1)]
    ordinals, frames = train.index.locate(order)
    wanted = [(train.episodes[e].episode_id, int(f)) for e, f in zip(ordinals, frames, strict=True)]
    for step in range(each):
        assert parts[0][step] + parts[1][step] == wanted[8 * step : 8 * step + 8]
    assert [len(batch) for batch in parts[1]] == [4] * (each + 2), "the next epoch goes on with whole batches"
    assert seen(train, Ranks(1, 2), each + 2, start=each - 1) == parts[1][each - 1 :]


def test_one_rank_of_eight_sees_what_two_of_four_see(train):
    wide = replace(DATA, batch_size=8)
    alone = [
        list(zip(batch["episode_id"], batch["frame"].tolist(), strict=True))
        for batch in TrainStream(rank_loader(train, wide, ranks=Ranks()), start_step=0, max_steps=3)
    ]
    both = [a + b for a, b in zip(seen(train, Ranks(0, 2), 3), seen(train, Ranks(1, 2), 3), strict=True)]
    assert alone == both


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("heads", ["[seen]", "[train,seen,unseen_operator]"])
def test_two_processes_train_one_run(config, heads):
    words = ("trainer.devices=2", f"evaluation.heads={heads}", "evaluation.videos=1", "trainer.evaluate_every_steps=2")
    name = f"two{len(heads)}"
    said = []
    first = fit(config(*words, run=name), say=said.append)
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"} & os.environ.keys()
    assert any("ranks: 2, 8 samples per batch" in line for line in said)
    again = fit(config(*words, run=f"{name}again"))
    assert first.result["ranks"] == 2
    assert first.result["heads"] == again.result["heads"], "both ranks agreed, or the run would have stopped"
    assert len(first.result["heads"]) == heads.count(",") + 1
    losses = [[row.value for row in MetricsFile(run.path / "metrics.csv").rows() if row.metric == "loss"] for run in (first, again)]
    assert losses[0] == losses[1]
    assert np.isfinite(losses[0]).all()
    written = json.loads((first.path / "evaluations/step-00000002.json").read_text())
    assert written.keys() == first.result["heads"].keys()
    assert [path.name for path in (first.path / "videos/step-00000004/seen").glob("*.mp4")]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_launcher_may_start_the_ranks(small_store, config):
    words = ["trainer.devices=2", "evaluation.heads=[seen]"]
    own = fit(config(*words, run="ours"))
    given = [f"store={small_store.root}", "dataset=small@v1", "run=theirs", *QUICK, *words]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "egotrain", "fit"]
    ended = subprocess.run([*launcher, *given], capture_output=True, text=True, check=False, timeout=500)
    assert ended.returncode == 0, ended.stderr
    theirs = json.loads((small_store.runs / "theirs/result.json").read_text())
    assert theirs["heads"] == own.result["heads"]
    wrong = subprocess.run([*launcher, *given[:2], "run=wrong", *QUICK], capture_output=True, text=True, check=False, timeout=500)
    assert "trainer.devices 1: the launcher started 2 ranks on this machine. Set trainer.devices=2." in wrong.stderr

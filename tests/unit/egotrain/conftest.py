"""A small real store with a frozen dataset, and a config that trains on it in seconds."""

import pytest

from egodata.annotations import SUBTASK, Span
from egodata.catalog import freeze
from egodata.catalog.rules import load_rule
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import SWIFT
from egotrain.build import fit
from egotrain.compose import compose_fit

RULE = """
name: small
version: v1
heads: [train, seen, unseen_operator]
held_out_operators: [{vendor}/op2]
valid_ratio: 0.25
pins:
  seen: {{count: 1}}
  unseen_operator: {{count: 1}}
"""
QUICK = (
    "policy=hpt_tiny",
    "trainer.threads=1",
    "trainer.max_steps=4",
    "trainer.log_every_steps=1",
    "trainer.checkpoint_every_steps=2",
    "data.batch_size=4",
    "data.image_height=24",
    "data.image_width=32",
    "evaluation.samples_per_head=8",
    "evaluation.batch_size=4",
    "evaluation.videos=0",
)


def draft_of(folder, k):
    spans = {SUBTASK: [Span("reach for the cube", 0, 30)]} if k % 2 else None
    return small_draft(folder, frames=44 + k, seed=k, episode_id=f"ep{k}", operator=f"op{k % 3}", annotations=spans)


@pytest.fixture(scope="session")
def small_store(tmp_path_factory):
    """Six episodes of three operators in both formats, frozen as small@v1; read only."""
    folder = tmp_path_factory.mktemp("egotrain")
    paths = open_root(folder / "a store", create=True)
    for k in range(6):
        publish_draft(paths, draft_of(folder, k), settings=SWIFT)
    build_lance(paths)
    rule = folder / "rule.yaml"
    rule.write_text(RULE.format(vendor=draft_of(folder, 0).meta.vendor))
    freeze(paths, load_rule(str(rule)))
    return paths


def quick(paths, *words, run):
    return compose_fit([f"store={paths.root}", "dataset=small@v1", f"run={run}", *QUICK, *words])


@pytest.fixture(scope="session")
def done(small_store):
    """One finished run on zarr: its config, its result and what it said; read only."""
    said = []
    config = quick(small_store, run="done")
    return config, fit(config, say=said.append), said


@pytest.fixture
def config(small_store, request):
    """A run of four steps whose name is that of the test function."""

    def make(*words, run=None):
        return quick(small_store, *words, run=run or request.node.originalname)

    return make

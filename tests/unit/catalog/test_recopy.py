"""Datasets get their Lance copy back after the tables were made anew, and old contents that nobody names free their cached numbers."""

import json
import shutil
from pathlib import Path

import pytest

from egodata.catalog import freeze, load_dataset, load_rule
from egodata.catalog.lineage import origins, uses
from egodata.catalog.recopy import recopy_datasets
from egodata.cli.main import cli, run
from egodata.errors import GateError
from egodata.formats.lance import build_lance
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import StorePaths, open_root
from egodata.testing.world import WorldOptions, write_delivery


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> tuple[StorePaths, str]:
    """A store with a dataset whose episode was corrected afterwards, and whose Lance tables were removed and built again."""
    folder = tmp_path_factory.mktemp("recopy")
    raw, rule = folder / "raw", folder / "mine.yaml"
    write_delivery(raw, WorldOptions(operators=1, episodes=3, seed=1, size=(64, 64), fps=10))
    options = IngestOptions("mecka", folder / "store", workers=1)
    ingest(raw, options=options)
    paths = open_root(folder / "store")
    build_lance(paths)
    rule.write_text("name: mine\nheads: [train]\nvalid_ratio: 0\n")
    freeze(paths, load_rule(str(rule)))
    annotations = next(raw.glob("*/*annot*"))
    annotations.write_text("\n".join(annotations.read_text().splitlines()[:2]) + "\n")
    assert len(ingest(raw, options=options).attached) == 1
    shutil.rmtree(paths.lance)
    build_lance(paths)
    return paths, annotations.parent.name


def test_recorded_contents_come_back_and_the_newest_stays_what_is_published(corrected: tuple[StorePaths, str]) -> None:
    paths, _ = corrected
    with pytest.raises(GateError, match="1 of 3 episodes are gone in the recorded content"):
        load_dataset(paths, "mine@v1", format="lance")
    found = recopy_datasets(paths)
    assert (found.restored, found.lost) == (("mine@v1",), ())
    assert build_lance(paths).changed == 1
    load_dataset(paths, "mine@v1", format="lance", sample=None)
    assert recopy_datasets(paths).restored == ()


def test_lineage_of_a_dataset_is_that_of_the_contents_it_recorded(corrected: tuple[StorePaths, str]) -> None:
    paths, changed = corrected
    manifest = load_dataset(paths, "mine@v1")
    found, gone = origins(paths, manifest)
    assert gone == []
    assert [one.episode_id for one in found] == [episode.episode_id for episode in manifest.heads["train"]]
    for one in found:
        entry = json.loads((paths.ledger / "ingest" / f"{one.recording_id}.json").read_text())
        assert one.uri == entry["uri"]
        assert one.converter == entry["converter"]
        assert one.parts["media"] == entry["parts"]["media"]
    assert [(use.dataset, use.head) for use in uses(paths, changed)] == [("mine@v1", "train")]
    assert uses(paths, "nobody") == []


def test_gc_frees_cached_numbers_that_nothing_names(corrected: tuple[StorePaths, str], capsys: pytest.CaptureFixture[str]) -> None:
    paths, _ = corrected
    held = load_dataset(paths, "mine@v1").heads["train"][0].content
    blocks = [paths.cache / "blocks" / "zarr" / content[:2] / f"{content}.block" for content in (held, "e" * 64)]
    for block in blocks:
        block.parent.mkdir(parents=True, exist_ok=True)
        block.write_bytes(b"x" * 10)
    assert run(cli, ["gc", str(paths.root), "--dry-run", "--json"], program="egodata") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["blocks"], told["blocks_bytes"]) == (1, 10)
    assert all(block.exists() for block in blocks)
    assert run(cli, ["gc", str(paths.root)], program="egodata") == 0
    assert [block.exists() for block in blocks] == [True, False]


def test_a_gate_of_ones_own_sees_what_is_frozen_before_it_is_written(corrected: tuple[StorePaths, str], tmp_path: Path) -> None:
    paths, _ = corrected
    rule = tmp_path / "gated.yaml"
    rule.write_text("name: gated\nheads: [train]\nvalid_ratio: 0\n")

    def refuse(manifest):
        raise GateError(f"no: {len(manifest.heads['train'])}")

    with pytest.raises(GateError, match="no: 3"):
        freeze(paths, load_rule(str(rule)), gate=refuse)
    assert not paths.manifest("gated", "v1").exists()
    frozen = freeze(paths, load_rule(str(rule)), gate=lambda manifest: {"looked_at": manifest.digest})
    assert frozen.manifest.provenance["looked_at"] == frozen.manifest.digest

import json
from importlib import import_module

import pytest

from egodata.catalog.manifest import HeadEpisode, Manifest, manifest_bytes, manifest_digest
from egodata.cli.main import cli, run
from egodata.schema.layout import open_root, write_atomic
from egodata.testing.memory import MemoryStore, ramp_joints


@pytest.fixture
def store(tmp_path, monkeypatch):
    memory = MemoryStore({"j0": ramp_joints("j0", frames=50), "j1": ramp_joints("j1", frames=30)})
    for module in ("egodata.stats.compute", "egodata.catalog.datasets"):
        monkeypatch.setattr(import_module(module), "open_store", lambda paths, format, versions: memory)
    paths = open_root(tmp_path / "store", create=True)
    head = tuple(HeadEpisode(name, one.meta.total_frames, one.digests.content, one.digests.media) for name, one in memory.episodes.items())
    draft = Manifest("set", "v1", "", {"train": head}, {})
    manifest = Manifest("set", "v1", manifest_digest(draft), {"train": head}, {})
    write_atomic(paths.manifest("set", "v1"), manifest_bytes(manifest))
    return paths.root


def test_stats_prints_a_summary_and_says_when_it_was_cached(store, capsys):
    words = ["stats", str(store), "set@v1", "--recipe", "joints"]
    assert run(cli, words, program="egodata") == 0
    first = capsys.readouterr()
    assert "2 episodes, 80 windows" in first.out and "from the cache" not in first.out
    assert "joint0" in first.out and "kept: " in first.out
    assert "statistics: 2/2" in first.err
    assert run(cli, words, program="egodata") == 0
    assert "from the cache" in capsys.readouterr().out
    assert run(cli, [*words, "--json"], program="egodata") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cached"], found["windows"], found["flat_channels"]) == (True, 80, [])


def test_unknown_recipe(store, capsys):
    assert run(cli, ["stats", str(store), "set@v1", "--recipe", "joint"], program="egodata") == 2
    assert "did you mean joints?" in capsys.readouterr().err

"""`egodata bench` on a small store."""

import json

import pytest

from egodata.catalog.manifest import HeadEpisode, Manifest, manifest_bytes, manifest_digest
from egodata.cli.main import cli, run
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root, write_atomic
from egodata.testing.drafts import small_draft
from egodata.video import SWIFT


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    paths = open_root(folder / "store", create=True)
    built = publish_draft(paths, small_draft(folder, frames=60, episode_id="ep0"), settings=SWIFT)
    head = (HeadEpisode("ep0", 60, built.content, built.media),)
    digest = manifest_digest(Manifest("set", "v1", "", {"train": head}, {}))
    write_atomic(paths.manifest("set", "v1"), manifest_bytes(Manifest("set", "v1", digest, {"train": head}, {})))
    return paths.root


def test_json_has_stages_workers_and_the_need(store, capsys):
    words = ["bench", store, "set@v1", "--recipe", "human_wrist6d", "--batch", 8, "--samples", 24, "--workers", "0", "--step-ms", 20]
    assert run(cli, [str(word) for word in [*words, "--json"]], program="egodata") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["stages"]["cpu_ms"]) == {"numbers", "decode", "assemble", "collate"}
    assert (found["stages"]["samples"], found["dataset"], found["format"], found["normalised"]) == (24, "set@v1", "zarr", True)
    assert found["stages"]["read_bytes"] >= 0
    assert [one["workers"] for one in found["workers"]] == [0]
    need = found["need"]
    assert need["samples_per_s"] == 400
    assert need["workers"] == max(1, -int(-8 * need["cpu_ms"] // 20))


def test_the_page_names_each_stage_and_what_the_step_needs(store, capsys):
    words = ["bench", store, "set@v1", "--recipe", "human_wrist6d", "--batch", 8, "--samples", 8, "--workers", "0", "--step-ms", 0.001]
    assert run(cli, [str(word) for word in [*words, "--no-normalise"]], program="egodata") == 0
    out = capsys.readouterr().out
    for word in ("numbers", "decode", "assemble", "collate", "whole", "kB/sample", "8 samples every 0.001 ms", "shortest step"):
        assert word in out


def test_what_cannot_be_measured_is_said(store, capsys):
    def error(*words):
        assert run(cli, ["bench", str(store), "set@v1", "--recipe", "human_wrist6d", *words], program="egodata") == 2
        return capsys.readouterr().err

    assert "--workers '1;2': expected numbers of processes up to 256 with commas" in error("--workers", "1;2")
    assert "--workers '99999': expected numbers of processes up to 256" in error("--workers", "99999")
    assert "60 samples make no batch of 64" in error("--no-normalise")

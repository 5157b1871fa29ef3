"""An exported dataset through the public packages, in an environment of their own (`make bench-env-lerobot`): our items, and it trains."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from egodata.catalog import load_dataset
from egodata.cli.main import cli, run
from egodata.episode import read_all_numeric
from egodata.formats import open_store
from egodata.interop.vectors import choose_vectors, fill_vector
from egodata.schema.layout import open_root

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CAMERA = "observation.images.front_1"


def command(*words):
    assert run(cli, [str(word) for word in words], program="egodata") == 0


@pytest.fixture(scope="module")
def python(repository):
    found = Path(os.environ.get("EGODATA_LEROBOT_PYTHON") or repository / ".venv-lerobot/bin/python")
    if not found.is_file():
        pytest.skip("no environment with lerobot; make one with `make bench-env-lerobot`")
    return found


@pytest.fixture(scope="module")
def peer(python, repository):
    process = subprocess.Popen(
        [python, repository / "benchmarks/lerobot_peer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def ask(**request):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.wait(60)


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    store = folder / "store"
    command("synth", folder / "delivery", "--episodes", 8, "--operators", 4, "--size", "320x180")
    command("ingest", folder / "delivery", "--vendor", "mecka", "--store", store, "--dataset", "cubes")
    command("lance", "build", store)
    command("dataset", "freeze", store, "synthetic", "--no-card")
    command("export", "lerobot", store, "synthetic@v1", folder / "lerobot", "--task", "annotations_subtask")
    command(
        "export",
        "lerobot",
        store,
        "synthetic@v1",
        folder / "lancedb",
        "--storage",
        "lance",
        "--format",
        "lance",
        "--task",
        "annotations_subtask",
    )
    return open_root(store), folder


def test_both_public_loaders_give_our_rows_and_frames(peer, exports, tmp_path):
    paths, folder = exports
    manifest = load_dataset(paths, "synthetic@v1")
    order = [member for members in manifest.heads.values() for member in members]
    starts = np.concatenate([[0], np.cumsum([member.frames for member in order])])
    picks = sorted({0, int(starts[-1]) - 1, *(int(s) for s in starts[1:-1]), *(int(s) - 1 for s in starts[1:-1])})
    delta = {"action": [step / 30 for step in range(30)], CAMERA: [-0.1, 0.0]}
    items = {}
    for name in ("lerobot", "lancedb"):
        answer = peer(do="open", name=name, loader=name, root=str(folder / name), delta=delta)
        assert answer["frames"] == starts[-1] and answer["episodes"] == len(order)
        peer(do="items", name=name, indices=picks, out=str(tmp_path / f"{name}.npz"))
        items[name] = np.load(tmp_path / f"{name}.npz")
    assert set(items["lerobot"]) == set(items["lancedb"])
    for key in items["lerobot"]:
        ours = items["lerobot"][key]
        assert np.array_equal(ours, items["lancedb"][key], equal_nan=ours.dtype.kind == "f"), key
    store, got = open_store(paths, "zarr"), items["lerobot"]
    for row, index in enumerate(picks):
        number = int(np.searchsorted(starts, index, side="right")) - 1
        frame, member = index - int(starts[number]), order[number]
        reader = store.open(member.episode_id, content=member.content)
        arrays = read_all_numeric(reader)
        state, action = (fill_vector(vector, arrays).rows for vector in choose_vectors(reader.meta))
        assert np.array_equal(got["observation.state"][row], state[frame])
        ahead = np.minimum(frame + np.arange(30), member.frames - 1)
        assert np.array_equal(got["action"][row], action[ahead])
        assert np.array_equal(got["action_is_pad"][row], frame + np.arange(30) >= member.frames)
        pictures = reader.frames("front_1", [max(0, frame - 3), frame]).astype(int)
        assert np.abs(got[CAMERA][row].transpose(0, 2, 3, 1) - pictures).mean() < 1.5, "another converter, the same frame"
        texts = [span.text for span in reader.spans("annotations_subtask") or () if span.start <= frame < span.end]
        assert str(got["task"][row]) == (texts[0] if texts else "")


def test_the_public_package_trains_on_it(peer, exports):
    answer = peer(do="train", root=str(exports[1] / "lerobot"), steps=8)
    assert answer["inputs"] == [CAMERA, "observation.state"]
    assert np.isfinite(answer["losses"]).all() and answer["losses"][-1] < answer["losses"][0]

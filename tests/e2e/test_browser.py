"""The Dagster UI in a headless browser: the asset graph, and a materialised episode with its preview.

Needs Debian's chromium and chromium-driver (or any on PATH) and the `browser` extra; run by `make test-all`.
Set EGO_SCREENSHOTS to a folder to keep the pictures; EGO_SCREENSHOT_STORE to look at a store of one's own.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from egodata.schema.layout import open_root
from pipelines.instance import open_instance
from tests.e2e.pages import keep, see
from tests.e2e.served import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PORT = 38611
WAIT_S = 60


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = os.environ.get("EGO_SCREENSHOT_STORE")
    if own:
        return Path(own)
    root = tmp_path_factory.mktemp("browser") / "store"
    words = ["quickstart", "--store", str(root), "--episodes", "7", "--steps", "2", "--set", "evaluation.samples_per_head=8"]
    subprocess.run([sys.executable, "-c", "from pipelines.cli import main; main()", *words], check=True, timeout=600, env=environment(None))
    return root


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    words = ["up", "--store", str(store), "--port", str(PORT)]
    server = subprocess.Popen([sys.executable, "-c", "from pipelines.cli import main; main()", *words], env=environment(None))
    try:
        url = f"http://127.0.0.1:{PORT}"
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                urllib.request.urlopen(f"{url}/server_info", timeout=2).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the UI did not answer"
                time.sleep(0.5)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


def test_the_graph_shows_every_asset(browser, address: str) -> None:
    browser.get(f"{address}/asset-groups")
    see(browser, "Global asset lineage", *GROUPS)
    script = "document.dispatchEvent(new KeyboardEvent('keydown', {code: 'KeyE', key: 'e', altKey: true, bubbles: true}))"
    browser.execute_script(script)  # the UI's own key for opening all groups
    see(browser, *ASSETS)
    time.sleep(3)
    keep(browser, "asset-graph")


ASSETS = ("raw_episode", "episode_zarr", "lance_v2", "parity_report", "dataset", "norm_stats", "training_run")  # longer names are elided
GROUPS = ("raw", "ingest", "tables", "parity", "datasets", "stats", "training")


def test_a_materialised_episode_shows_its_preview(browser, address: str, store: Path) -> None:
    with open_instance(open_root(store)) as instance:
        recording = sorted(instance.get_materialized_partitions(dg.AssetKey("episode_zarr")))[0]
    browser.get(f"{address}/assets/episode_zarr?view=partitions&partition={recording}")
    see(browser, recording, "raw_sha256", "content")
    deadline = time.monotonic() + WAIT_S
    while True:
        widths = browser.execute_script(
            "return [...document.images].filter(i => i.src.startsWith('data:image/png')).map(i => i.naturalWidth)"
        )
        if widths:
            break
        browser.execute_script("[...document.querySelectorAll('button, a')].find(e => /Show markdown/i.test(e.innerText))?.click()")
        assert time.monotonic() < deadline, "no preview image on the page"
        time.sleep(0.5)
    assert widths[0] > 400
    time.sleep(1)
    keep(browser, "episode-preview")


def test_a_training_run_shows_its_scores(browser, address: str) -> None:
    browser.get(f"{address}/assets/training_run?view=events")
    see(browser, "train_loss", "checkpoint", "dataset_digest")
    keep(browser, "training-run")

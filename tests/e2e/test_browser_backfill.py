"""A delivery with broken recordings in the browser: click one recording, backfill all, read why some failed, repair, run only those.

Needs Chromium as tests/e2e/test_browser.py does; run by `make test-all`. EGO_SCREENSHOTS keeps the pictures.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from egodata.schema.layout import open_root
from pipelines.episode_checks import EPISODE_CHECKS
from pipelines.instance import open_instance
from pipelines.state import AssetState
from tests.e2e.pages import keep, see
from tests.e2e.served import deliver, egopipe, state, up, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
EPISODES, BROKEN = 60, "truncated-video:3,truncated-video:20,truncated-video:41"
CLICK = """
const wanted = arguments[0];
const found = [...document.querySelectorAll('button, a, [role=button], [role=menuitem], label, li')]
  .filter(e => e.innerText && e.innerText.trim().toLowerCase().startsWith(wanted) && e.offsetParent !== null && !e.disabled);
if (!found.length) return false;
found.sort((a, b) => a.innerText.length - b.innerText.length)[0].click();
return true;
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    root = tmp_path_factory.mktemp("backfill") / "store"
    _, ids = deliver(root, episodes=EPISODES, fault=BROKEN)
    with up(root) as address:
        yield root, address, ids


def click(browser, text: str) -> None:
    """Click the button, link or entry that begins with a text, as soon as there is one."""
    deadline = time.monotonic() + 60
    while not browser.execute_script(CLICK, text.lower()):
        assert time.monotonic() < deadline, f"nothing to click that begins with {text!r}:\\n{shown(browser)[:3000]}"
        time.sleep(0.4)
    time.sleep(0.8)


def shown(browser) -> str:
    return str(browser.execute_script("return document.body.innerText"))


def zarr(root: Path) -> AssetState:
    return state(root, "episode_zarr")


def test_a_recording_is_materialised_by_clicking(browser, served) -> None:
    root, address, ids = served
    browser.get(f"{address}/assets/episode_zarr?view=partitions&partition={ids[0]}")
    see(browser, ids[0])
    click(browser, "materialize")
    see(browser, "Partition selection")
    keep(browser, "materialise-dialog")
    see(browser, "1 partition")
    click(browser, "launch")
    wait_until(lambda: zarr(root).materialized == 1, "the clicked recording", timeout_s=180)
    browser.get(f"{address}/assets/episode_zarr?view=partitions&partition={ids[0]}")
    see(browser, "raw_sha256", "content")
    preview(browser)
    keep(browser, "clicked-recording")


def preview(browser) -> None:
    """The contact sheet is on the page, as a picture that was decoded."""
    deadline = time.monotonic() + 60
    while True:
        script = "return [...document.images].filter(i => i.src.startsWith('data:image/png')).map(i => i.naturalWidth)"
        widths = browser.execute_script(script)
        if widths:
            break
        browser.execute_script("[...document.querySelectorAll('button, a')].find(e => /Show markdown/i.test(e.innerText))?.click()")
        assert time.monotonic() < deadline, "no preview image on the page"
        time.sleep(0.5)
    assert widths[0] > 100


def test_a_backfill_fails_exactly_the_broken_recordings_and_says_why(browser, served) -> None:
    root, address, _ = served
    browser.get(f"{address}/assets/episode_zarr?view=partitions")
    see(browser, "episode_zarr", "Missing")
    click(browser, "materialize")
    see(browser, "Partition selection")
    click(browser, "all")
    keep(browser, "backfill-dialog")
    click(browser, "launch")
    wait_until(lambda: over(root, 57, 3), "the backfill", timeout_s=600)
    found = zarr(root)
    assert (found.partitions, found.materialized, len(found.failed)) == (60, 57, 3)
    browser.get(f"{address}/assets/episode_zarr?view=partitions&status=FAILED")
    see(browser, *sorted(found.failed))
    keep(browser, "backfill-failed")
    verdicts = evaluations(root)
    assert {name: looked_at for name, (looked_at, _) in verdicts.items()} == dict.fromkeys(EPISODE_CHECKS, 57)
    assert {good for name, (_, good) in verdicts.items() if name != "annotation_coverage"} == {57}  # some come without texts
    first = min(found.failed)
    browser.get(f"{address}/assets/episode_zarr?view=partitions&status=FAILED&partition={first}")
    see(browser, first, "failed, and did not materialize this asset", "View logs")
    keep(browser, "failed-partition")
    click(browser, "view logs")  # one click from the partition to the reasons of all
    log = see(browser, "RUN_FAILURE", "3 of 60 partitions failed", *(f"{name}: video-unreadable: " for name in found.failed))
    assert log.count("not a readable video") >= 3
    keep(browser, "failed-reasons")
    browser.get(f"{address}/assets/episode_zarr?view=events&partition={first}&asset_event_type=ASSET_OBSERVATION")
    see(browser, first, "set aside", "not a readable video")
    keep(browser, "failed-recording")
    browser.get(f"{address}/overview/backfills")
    see(browser, "episode_zarr")
    keep(browser, "backfills")


def evaluations(root: Path) -> dict[str, tuple[int, int]]:
    """Return by check of the episodes how many verdicts its record in Dagster sums up, and how many of them are good."""
    keys = [dg.AssetCheckKey(dg.AssetKey("episode_zarr"), name) for name in EPISODE_CHECKS]
    with open_instance(open_root(root)) as instance:
        records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    seen = {key.name: record.event.dagster_event.asset_check_evaluation_data.metadata for key, record in records.items()}
    return {name: (found["looked_at"].value, found["looked_at"].value - found["failed"].value) for name, found in seen.items()}


def over(root: Path, materialized: int, failed: int) -> bool:
    found = zarr(root)
    return found.materialized == materialized and len(found.failed) == failed


def test_after_the_repair_only_what_failed_is_run_and_all_is_green(browser, served) -> None:
    root, address, _ = served
    before = zarr(root)
    deliver(root, episodes=EPISODES)  # the vendor sends whole files
    browser.get(f"{address}/assets/episode_zarr?view=partitions")
    see(browser, "episode_zarr", "Failed")
    click(browser, "materialize")
    see(browser, "Partition selection")
    click(browser, "failed")
    keep(browser, "failed-only-dialog")
    click(browser, "launch")
    wait_until(lambda: over(root, 60, 0), "the failed ones again", timeout_s=400)
    assert before.materialized == 57
    browser.get(f"{address}/assets/episode_zarr?view=partitions")
    see(browser, "60")
    time.sleep(3)
    keep(browser, "all-green")


def test_a_built_recording_that_comes_broken_says_so_on_its_own_page(browser, served) -> None:
    root, address, _ = served
    deliver(root, episodes=EPISODES, fault="truncated-video:7")
    done = egopipe("backfill", "episode_zarr", "--store", str(root))  # what is stale
    assert done.returncode == 1, done.stdout
    (broken,) = zarr(root).failed
    browser.get(f"{address}/assets/episode_zarr?view=partitions&status=FAILED&partition={broken}")
    see(browser, broken, "Materialized", "set aside", "not a readable video")  # no click at all
    keep(browser, "built-then-failed")

"""A delivery with broken recordings in the browser: click one recording, backfill all, read why some failed, repair, run only those.

Needs Chromium as tests/e2e/test_browser.py does; run by `make test-all`. EGO_SCREENSHOTS keeps the pictures.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.state import AssetState
from tests.e2e.pages import keep, see
from tests.e2e.served import deliver, state, up, wait_until

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
    first = min(found.failed)
    browser.get(f"{address}/assets/episode_zarr?view=events&partition={first}&asset_event_type=ASSET_OBSERVATION")
    see(browser, first, "set aside", "not a readable video")
    keep(browser, "failed-recording")
    browser.get(f"{address}/overview/backfills")
    see(browser, "episode_zarr")
    keep(browser, "backfills")


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

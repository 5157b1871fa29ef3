"""20,000 recordings in the UI: what the webserver answers, and what a headless Chromium shows, from navigation to the content.

Run by dagster_scale.py.
"""

import os
import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG, get_input_data_version_tag
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent

from egodata.schema.layout import open_root
from pipelines import remote
from pipelines.assets.raw import RAW_EPISODE
from pipelines.events import latest_observed
from pipelines.instance import open_instance
from pipelines.leftovers import leftovers
from pipelines.partitions import RECORDINGS, add_keys
from pipelines.state import failed_partitions
from tests.e2e.served import up

KEY = dg.AssetKey("episode_zarr")
PARTITIONS, REPEATS, LONGEST_S = 20_000, 5, 60.0
FAILED = slice(7, None, 333)
ANSWERS = {
    "partitions page: keys and statuses": """query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode { partitionKeys
      partitionStats { numMaterialized numFailed numPartitions } assetPartitionStatuses { ... on DefaultPartitionStatuses {
      materializedPartitions failedPartitions unmaterializedPartitions materializingPartitions } } } } }""",
    "graph: counts of every asset": """query { assetNodes { assetKey { path } groupName partitionStats { numMaterialized numFailed
      numPartitions } latestMaterializationByPartition { timestamp } } }""",
    "one partition: its last event": """query($k: AssetKeyInput!, $p: [String!]) { assetOrError(assetKey: $k) { ... on Asset {
      assetMaterializations(partitions: $p, limit: 1) { partition timestamp metadataEntries { label } } } } }""",
}
Page = Callable[[Any, str], float]


def filled(root: Path) -> dict[str, object]:
    """Give a store 20,000 recordings that are observed and built, 61 of them failed since; about 7 ms an event, so it is kept."""
    paths, begun = open_root(root, create=True), time.perf_counter()
    keys = [f"rec-{number:06d}" for number in range(PARTITIONS)]
    with open_instance(paths) as instance:
        add_keys(instance, RECORDINGS, keys=keys)
        seen, there = latest_observed(instance, RAW_EPISODE), instance.get_materialized_partitions(KEY)
        for key in keys:
            if key not in seen:
                instance.report_runless_asset_event(dg.AssetObservation(RAW_EPISODE, partition=key, tags={DATA_VERSION_TAG: "a" * 64}))
            if key not in there:
                tags = {DATA_VERSION_TAG: "b" * 64, get_input_data_version_tag(RAW_EPISODE): "a" * 64}
                instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition=key, tags=tags))
        if not failed_partitions(instance, paths, key=KEY, definition=RECORDINGS):
            _fail(instance, keys[FAILED])
        failed = len(failed_partitions(instance, paths, key=KEY, definition=RECORDINGS))
    return {
        "partitions": len(keys),
        "materialized": len(keys) - failed,
        "failed": failed,
        "filled_s": round(time.perf_counter() - begun, 1),
    }


def _fail(instance: dg.DagsterInstance, keys: list[str]) -> None:
    """Leave the events of a run that was to build some partitions and failed."""
    run = dg.DagsterRun(job_name=remote.ASSET_JOB, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset([KEY]))
    instance.add_run(run)
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value
    for key in keys:
        planned = AssetMaterializationPlannedData(asset_key=KEY, partition=key)
        instance.report_dagster_event(DagsterEvent(kind, remote.ASSET_JOB, message="planned", event_specific_data=planned), run.run_id)
    instance.report_run_failed(run)


def pages(folder: Path) -> dict[str, object]:
    """Ask the webserver for what pages need, with many recordings."""
    root = folder / "pages" / "store"
    state = filled(root)
    answers: dict[str, list[float]] = {name: [] for name in ANSWERS}
    with up(root) as address:
        remote.wait_until_loaded(address)
        for _ in range(3):
            for name, query in ANSWERS.items():
                begun = time.perf_counter()
                found = remote.ask(address, query, variables={"k": {"path": ["episode_zarr"]}, "p": ["rec-000005"]})
                answers[name].append(round(time.perf_counter() - begun, 2))
                assert found
        begun = time.perf_counter()
        urllib.request.urlopen(f"{address}/assets/episode_zarr?view=partitions").read()
        shell = round(time.perf_counter() - begun, 2)
    return {**state, "answers_s": answers, "page_shell_s": shell}


def browser(folder: Path) -> dict[str, object]:
    """Open pages in a browser that has seen none of them, then again; every time is from navigation, or a click, to the content."""
    root, shots = folder / "pages" / "store", folder / "pages" / "screenshots"
    state, paths = filled(root), open_root(root)
    shots.mkdir(exist_ok=True)
    shown: dict[str, dict[str, object]] = {}
    with up(root) as address, _chromium() as driver:
        remote.wait_until_loaded(address)
        for name, page in SHOWN.items():
            took, server = [], _cpu_s(paths.dagster)
            for _ in range(1 + REPEATS):
                driver.get("about:blank")
                took.append(round(page(driver, address), 2))
            server = (_cpu_s(paths.dagster) - server) / (1 + REPEATS)
            driver.save_screenshot(str(shots / f"{name.replace(' ', '-').replace(',', '')}.png"))
            slowest = sorted(driver.execute_script(QUERIES), key=lambda item: -item[1])[:2]
            shown[name] = {"first_s": took[0], "again_median_s": statistics.median(took[1:]), "again_worst_s": max(took[1:])}
            shown[name] |= {"browser_cpu_s": round(_main_thread_s(driver), 2), "servers_cpu_s": round(server, 2)}
            shown[name]["slowest_queries_ms"] = dict(slowest)
    return {**state, "shown": shown, "load_average": os.getloadavg()[0], "screenshots": str(shots)}


QUERIES = """return performance.getEntriesByType('resource').filter(e => e.name.includes('/graphql'))
  .map(e => [e.name.split('op=')[1], Math.round(e.duration)])"""
OPENED = """if (document.body.innerText.includes(arguments[0])) return true;
const groups = [...document.querySelectorAll('foreignObject')].some(e => e.textContent.includes('ingest'));
if (!groups || Date.now() - (window.asked ?? 0) < 1000) return false;
window.asked = Date.now();
document.dispatchEvent(new KeyboardEvent('keydown', {code: 'KeyE', key: 'e', altKey: true, bubbles: true})); return false"""
CLICK = """const found = [...document.querySelectorAll('button')].filter(e => e.innerText.trim().startsWith(arguments[0]) && !e.disabled);
if (found.length) found[0].click(); return found.length > 0"""
RED = """const named = e => !e.children.length && e.innerText === arguments[0] && e.closest('svg');
const leaf = [...document.querySelectorAll('*')].filter(named)[0];
for (let e = leaf, n = 0; e && n < 8; e = e.parentElement, n++) {
  const c = getComputedStyle(e).backgroundColor.match(/[0-9.]+/g).map(Number);
  if (c[0] - c[1] > 15 && (c.length < 4 || c[3] > 0)) return true; } return false"""


def _main_thread_s(driver: Any) -> float:
    """Return the CPU time of the page's main thread since it was opened: on a shared machine the wall says little."""
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(item["value"] for item in metrics if item["name"] == "TaskDuration"))


def _cpu_s(home: Path) -> float:
    """Return the CPU time so far of webserver, code server and daemon."""
    ticks = 0
    for pid in leftovers(str(home)):
        fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _see(driver: Any, *words: str) -> None:
    """Wait until a page shows all words."""
    _until(lambda: all(word in driver.execute_script("return document.body.innerText") for word in words), ", ".join(words))


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not done():
        assert time.monotonic() < deadline, f"not on the page after {LONGEST_S} s: {what}"
        time.sleep(0.02)


def _page(url: str, *words: str) -> Page:
    def opened(driver: Any, address: str) -> float:
        begun = time.perf_counter()
        driver.get(f"{address}{url}")
        _see(driver, *words)
        return time.perf_counter() - begun

    return opened


def _graph(driver: Any, address: str) -> float:
    """Open the graph, all groups of it, until the failed asset is red: so its state is there, not only its box."""
    begun = time.perf_counter()
    driver.get(f"{address}/asset-groups")
    _until(lambda: bool(driver.execute_script(OPENED, "episode_zarr")), "all groups")
    _until(lambda: bool(driver.execute_script(RED, "episode_zarr")), "episode_zarr in red")
    return time.perf_counter() - begun


def _lineage(driver: Any, address: str) -> float:
    begun = time.perf_counter()
    driver.get(f"{address}/assets/episode_zarr?view=lineage")
    _see(driver, "episode_zarr", "lance_v2", "Latest event")
    _until(lambda: "Loading" not in driver.execute_script("return document.body.innerText"), "states of the assets")
    return time.perf_counter() - begun


def _dialog(driver: Any, address: str) -> float:
    """Time from the click on *Materialize...* to the choice of partitions."""
    ALL_PAGES["partitions"](driver, address)
    return _open_dialog(driver)


def _dialog_all(driver: Any, address: str, *, partitions: int = PARTITIONS) -> float:
    """Time from the click on *All* in that dialog to the count of all partitions."""
    _page("/assets/episode_zarr?view=partitions", f"{partitions:,} Partitions Selected", "Failed (")(driver, address)
    _open_dialog(driver)
    begun = time.perf_counter()
    assert driver.execute_script(CLICK, "All")
    _see(driver, f"{partitions:,} partitions", f"{partitions} partitions selected")
    return time.perf_counter() - begun


def _open_dialog(driver: Any) -> float:
    begun = time.perf_counter()
    assert driver.execute_script(CLICK, "Materialize")
    _see(driver, "Partition selection", "Failed and missing", "Launch")
    return time.perf_counter() - begun


def dialog(folder: Path) -> dict[str, object]:
    """Choose all partitions in the materialise dialog, with more and more of them: how the browser's own time grows."""
    shown = {}
    for partitions in (2500, 5000, 10_000, 20_000):
        root = folder / f"dialog-{partitions}" / "store"
        with open_instance(open_root(root, create=True)) as instance:
            add_keys(instance, RECORDINGS, keys=[f"rec-{number:06d}" for number in range(partitions)])
        with up(root) as address, _chromium() as driver:
            remote.wait_until_loaded(address)
            took = [round(_dialog_all(driver, address, partitions=partitions), 2) for _ in range(REPEATS)]
            cpu = round(_main_thread_s(driver), 2)
        shown[partitions] = {"median_s": statistics.median(took), "browser_cpu_s_with_its_page": cpu}
    return {"partitions": shown, "load_average": os.getloadavg()[0]}


ALL_PAGES = {
    "partitions": _page("/assets/episode_zarr?view=partitions", f"{PARTITIONS:,} Partitions Selected", "Failed (61)", "rec-000000"),
    "one partition": _page(
        "/assets/episode_zarr?view=partitions&partition=rec-000005",
        "Failed (61)",
        "Latest materialization",
        "View all historical events (1)",
    ),
    "asset overview": _page("/assets/episode_zarr?view=overview", "Failed in", "Upstream assets", "Definition"),
    "asset events": _page("/assets/episode_zarr?view=events", "rec-0"),
    "catalog": _page("/assets", "episode_zarr", f"{PARTITIONS:,} partitions", "19,939"),
}
SHOWN: dict[str, Page] = {
    **ALL_PAGES,
    "asset lineage": _lineage,
    "graph, all groups open": _graph,
    "materialise dialog": _dialog,
    "all partitions in the dialog": _dialog_all,
}


@contextmanager
def _chromium() -> Iterator[Any]:
    from selenium import webdriver

    profile = Path(tempfile.mkdtemp(prefix="egodata-pages-"))
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    quiet = ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-sync")
    for flag in (*quiet, "disable-component-update", "window-size=1600,1000", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    try:
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)

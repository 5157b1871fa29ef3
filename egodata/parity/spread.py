"""Content level over many episodes: in several processes, and going on where an interrupted check stopped.

Every finished episode is a line in ``cache/parity/<key>.jsonl``, where the key covers contents, table versions and bounds; the file goes
when the check ends, so a check that is asked for again reads everything again.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from egodata.episode import EpisodeStore
from egodata.findings import Finding
from egodata.formats import open_store
from egodata.parity.content import compare_content
from egodata.parity.report import Outcome, ParityConfig, outcome_from_json
from egodata.parity.scope import Scope, open_episode
from egodata.progress import Progress
from egodata.schema.canonical import canonical_json, sha256_hex
from egodata.schema.layout import StorePaths

ALGORITHM = "content-2"
_QUEUED_PER_WORKER = 2


@dataclass(frozen=True, slots=True)
class _Task:
    root: str
    versions: tuple[tuple[str, int], ...]
    episode_id: str
    content: str | None
    frames: int | None
    config: ParityConfig


@dataclass(frozen=True, slots=True)
class Compared:
    """One episode's outcome.

    Attributes:
        outcome: What was found.
        content: Digest of the zarr episode; empty where one side could not be opened.
    """

    outcome: Outcome
    content: str


def compare_one(scope: Scope, episode_id: str, *, frames: int | None, config: ParityConfig) -> Compared:
    """Open one episode on both sides and compare it.

    Args:
        scope: Stores and contents.
        episode_id: The episode.
        frames: Frames decoded per camera; None for all.
        config: Bounds and seed; which frames are decoded depends on the seed and the id alone.
    """
    zarr, lance = (open_episode(store, episode_id, scope=scope) for store in (scope.zarr, scope.lance))
    seed = int.from_bytes(hashlib.sha256(f"{config.seed}:{episode_id}".encode()).digest()[:4], "big")
    try:
        if isinstance(zarr, Finding) or isinstance(lance, Finding):
            known = next((side.digests.content for side in (zarr, lance) if not isinstance(side, Finding)), "")
            lost = [side for side in (zarr, lance) if isinstance(side, Finding)]
            return Compared(Outcome(findings=tuple(replace(found, content=found.content or known) for found in lost)), "")
        return Compared(compare_content(zarr, lance, frames=frames, seed=seed, config=config), zarr.digests.content)
    finally:
        for reader in (zarr, lance):
            if not isinstance(reader, Finding):
                reader.close()


def compare_all(
    paths: StorePaths, scope: Scope, *, held: Mapping[str, str], frames: int | None, config: ParityConfig, progress: Progress
) -> dict[str, Compared]:
    """Compare all episodes of a scope.

    Args:
        paths: The store.
        scope: Stores, ids and contents.
        held: Content digest of each zarr episode that could be opened, for the key of what is already done.
        frames: Frames decoded per camera; None for all.
        config: Bounds, seed, workers.
        progress: Told per episode.

    Returns:
        By episode id, in the scope's order.
    """
    journal = _journal(paths, scope, held, frames=frames, config=config)
    done = {} if config.fresh else _read(journal)
    left = [episode_id for episode_id in scope.ids if episode_id not in done]
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("w" if config.fresh else "a") as file:
        for number, (episode_id, compared) in enumerate(_compared(paths, scope, left, frames=frames, config=config)):
            progress("parity content", len(scope.ids) - len(left) + number, len(scope.ids))
            done[episode_id] = compared
            line = {"id": episode_id, "content": compared.content, "outcome": compared.outcome.to_json()}
            file.write(json.dumps(line) + "\n")
            file.flush()
    progress("parity content", len(scope.ids), len(scope.ids))
    journal.unlink(missing_ok=True)
    return {episode_id: done[episode_id] for episode_id in scope.ids}


def _compared(
    paths: StorePaths, scope: Scope, ids: list[str], *, frames: int | None, config: ParityConfig
) -> Iterator[tuple[str, Compared]]:
    if min(config.workers, len(ids)) <= 1:
        for episode_id in ids:
            yield episode_id, compare_one(scope, episode_id, frames=frames, config=config)
        return
    versions = tuple(sorted(_versions(scope.lance).items()))
    tasks = (_Task(str(paths.root), versions, name, scope.contents.get(name), frames, config) for name in ids)
    context = multiprocessing.get_context("spawn")  # neither lance nor zarr's loop survives a fork
    with ProcessPoolExecutor(min(config.workers, len(ids)), mp_context=context) as pool:
        yield from _as_they_end(pool, tasks, config.workers * _QUEUED_PER_WORKER)


def _as_they_end(pool: ProcessPoolExecutor, tasks: Iterable[_Task], queued: int) -> Iterator[tuple[str, Compared]]:
    todo = iter(tasks)
    running = {pool.submit(_remote, task): task.episode_id for task in islice(todo, queued)}
    while running:
        ended, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in ended:
            yield running.pop(future), future.result()
            running |= {pool.submit(_remote, task): task.episode_id for task in islice(todo, 1)}


def _remote(task: _Task) -> Compared:
    zarr, lance = _stores(task.root, task.versions)
    contents = {} if task.content is None else {task.episode_id: task.content}
    return compare_one(Scope(zarr, lance, (task.episode_id,), contents), task.episode_id, frames=task.frames, config=task.config)


@lru_cache(maxsize=1)
def _stores(root: str, versions: tuple[tuple[str, int], ...]) -> tuple[EpisodeStore, EpisodeStore]:
    paths = StorePaths(Path(root))
    return open_store(paths, "zarr"), open_store(paths, "lance", versions=dict(versions) or None)


def _versions(lance: EpisodeStore) -> dict[str, int]:
    found: dict[str, int] = getattr(lance, "versions", {})
    return found


def _journal(paths: StorePaths, scope: Scope, held: Mapping[str, str], *, frames: int | None, config: ParityConfig) -> Path:
    bounds = {name: value for name, value in asdict(config).items() if name not in ("workers", "fresh")}
    contents = [[name, scope.contents.get(name, ""), held.get(name, "")] for name in scope.ids]
    key = canonical_json({"algorithm": ALGORITHM, "episodes": contents, "versions": _versions(scope.lance), "frames": frames, **bounds})
    return paths.cache / "parity" / f"{sha256_hex(key)[:16]}.jsonl"


def _read(path: Path) -> dict[str, Compared]:
    """Return the finished episodes of an interrupted check; a line that a kill cut off is left out."""
    done: dict[str, Compared] = {}
    try:
        lines = path.read_text().split("\n")
    except FileNotFoundError:
        return done
    for line in lines:
        try:
            value = json.loads(line)
            done[value["id"]] = Compared(outcome_from_json(value["outcome"]), value["content"])
        except (ValueError, KeyError, TypeError):
            continue
    return done

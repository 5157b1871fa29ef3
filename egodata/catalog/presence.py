"""The gate that needs the store: every episode of a dataset still opens in the content that it recorded."""

from egodata.catalog.gates import SHOWN
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.catalog.splits import hash64
from egodata.episode import EpisodeStore
from egodata.errors import CorruptEpisodeError, GateError, NotFoundError
from egodata.progress import Progress, silent, tracked

SAMPLED = 64


def check_present(manifest: Manifest, store: EpisodeStore, *, sample: int | None = SAMPLED, progress: Progress = silent) -> int:
    """Open the episodes of a dataset at their recorded contents.

    Args:
        manifest: The dataset.
        store: The copy that will be read, at the table versions that the dataset recorded.
        sample: How many to open, the same ones for the same dataset: every pin, and the rest drawn by its digest. None opens all.
        progress: Told how many were opened.

    Returns:
        How many were opened.

    Raises:
        GateError: Some are gone or damaged; the message names the first five, their heads, and how many there are.
    """
    chosen = _chosen(manifest, sample)
    missing = [
        f"{episode.episode_id} ({head}, content {episode.content[:16]})"
        for head, episode in tracked(chosen, label=f"present {manifest.ref}", progress=progress)
        if not _opens(store, episode)
    ]
    if missing:
        total = sum(len(members) for members in manifest.heads.values())
        of = f"of {len(chosen)} looked at" if len(chosen) < total else f"of {total}"
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise GateError(
            f"dataset {manifest.ref}: {len(missing)} {of} episodes are gone in the recorded content: {', '.join(missing[:SHOWN])}{more}. "
            f"Rebuild them from the same delivery, or freeze a new version."
        )
    return len(chosen)


def absent_contents(manifest: Manifest, store: EpisodeStore) -> list[tuple[str, HeadEpisode]]:
    """Return every episode of a dataset that a copy does not hold in its recorded content, with its head."""
    return [(head, episode) for head, episode in _chosen(manifest, None) if not _opens(store, episode)]


def _opens(store: EpisodeStore, episode: HeadEpisode) -> bool:
    try:
        store.open(episode.episode_id, content=episode.content).close()
    except (NotFoundError, CorruptEpisodeError):
        return False
    return True


def _chosen(manifest: Manifest, sample: int | None) -> list[tuple[str, HeadEpisode]]:
    every = [(head, episode) for head, members in manifest.heads.items() for episode in members]
    if sample is None or sample >= len(every):
        return every
    pins = {pin for ids in manifest.pins.values() for pin in ids}
    drawn = sorted(every, key=lambda item: (item[1].episode_id not in pins, hash64(f"{manifest.digest}:{item[1].episode_id}")))
    return drawn[: max(sample, len(pins))]

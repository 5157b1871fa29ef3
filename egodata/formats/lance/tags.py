"""Tags that keep the table versions of a frozen dataset."""

from collections.abc import Mapping

from egodata.errors import ConflictError
from egodata.formats.lance.tables import EPISODES, TABLES, named_versions, open_table
from egodata.schema.layout import CONTENT_PREFIX, StorePaths


def dataset_tag(digest: str) -> str:
    """Return the tag of a dataset digest: ``ds-`` and its first 16 hex digits."""
    return f"ds-{digest[:CONTENT_PREFIX]}"


def tagged_versions(paths: StorePaths, digest: str) -> dict[str, int] | None:
    """Return the versions tagged for a dataset, or None where it has no tag."""
    tag = dataset_tag(digest)
    found = open_table(paths, EPISODES).tags.list().get(tag)
    if found is None:
        return None
    return named_versions(open_table(paths, EPISODES, version=int(found["version"])))


def drop_tag(paths: StorePaths, digest: str) -> None:
    """Take the tag of a dataset from all four tables; without one nothing happens."""
    tag = dataset_tag(digest)
    for table in TABLES:
        tags = open_table(paths, table).tags
        if tag in tags.list():
            tags.delete(tag)


def tag_dataset(paths: StorePaths, digest: str, *, versions: Mapping[str, int]) -> dict[str, int]:
    """Tag all four tables for a frozen dataset. A second call, also after a kill in the middle, changes nothing that stands.

    Args:
        paths: The store.
        digest: Of the manifest's identity, 64 hex digits.
        versions: Version by table, as one `episodes` commit names them.

    Returns:
        The tagged versions: those of the first call.

    Raises:
        ConflictError: The versions do not belong together.
        NotFoundError: A version is gone.
    """
    tag = dataset_tag(digest)
    kept = tagged_versions(paths, digest)
    if kept is None:
        kept = named_versions(open_table(paths, EPISODES, version=versions[EPISODES]))
        if kept is None or kept != {table: versions.get(table) for table in TABLES}:
            raise ConflictError(
                f"tag {tag}: episodes version {versions[EPISODES]} names {kept}, got {dict(versions)}. Use `table_versions`."
            )
    for table in (EPISODES, *(name for name in TABLES if name != EPISODES)):
        tags = open_table(paths, table).tags
        if tag not in tags.list():
            tags.create(tag, kept[table])
    return kept

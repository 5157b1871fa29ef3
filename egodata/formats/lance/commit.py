"""Uncommitted fragments and the commits that make them visible. Why in this order: docs/decisions/004-lance-commit-order.md."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, write_fragments

from egodata.errors import ConflictError, EgodataError, InputError

ROWS_PER_FILE = 1 << 20


@contextmanager
def writing(dataset: lance.LanceDataset) -> Iterator[None]:
    """Turn a full disk and the like into one line that names the table.

    Raises:
        InputError: The table cannot be written to.
    """
    try:
        yield
    except (EgodataError, CommitConflictError):
        raise
    except OSError as error:
        text = " ".join(str(error).split())[:160]
        raise InputError(f"Lance table {dataset.uri}: cannot be written ({text}). Make room and build again.") from error


def stage(dataset: lance.LanceDataset, batches: Iterable[pa.RecordBatch], *, schema: pa.Schema) -> list[FragmentMetadata]:
    """Write rows to data files that no version names yet.

    Args:
        dataset: The table they are for; its storage version is used.
        batches: In the order in which rows are stored. Taken one at a time.
        schema: Of the batches; columns that the table has beyond it read as null.

    Raises:
        InputError: The disk is full, or the folder is not writable.
    """
    stream = (batch for batch in batches if batch.num_rows)
    first = next(stream, None)
    if first is None:
        return []
    failure: list[Exception] = []

    def watched() -> Iterator[pa.RecordBatch]:
        try:
            yield first
            yield from stream
        except Exception as error:
            failure.append(error)  # arrow's stream turns it into text; the caller gets the error itself
            raise

    reader = pa.RecordBatchReader.from_batches(schema, watched())
    try:
        with writing(dataset):
            fragments = write_fragments(
                reader, dataset, mode="append", max_rows_per_file=ROWS_PER_FILE, data_storage_version=dataset.data_storage_version
            )
    except (OSError, ValueError, RuntimeError):
        if failure:
            raise failure[0] from None
        raise
    return list(fragments)


def _without(dataset: lance.LanceDataset, episode_ids: Iterable[str]) -> tuple[list[FragmentMetadata], list[int]]:
    """Return fragments with those episodes' rows marked as deleted, and the ids of fragments left without a row."""
    names = pa.array(sorted(set(episode_ids)), pa.string())
    found = dataset.to_table(columns=["episode_id"], with_row_address=True)
    addresses = found["_rowaddr"].filter(pc.is_in(found["episode_id"].cast(pa.string()), value_set=names)).to_numpy()
    owners, offsets = addresses >> 32, addresses & 0xFFFFFFFF
    changed, gone = [], []
    for fragment_id in np.unique(owners):
        fragment = lance.LanceFragment(dataset, int(fragment_id))
        left = fragment.delete_rows(offsets[owners == fragment_id].tolist())
        if left is None:
            gone.append(int(fragment_id))
        else:
            changed.append(left)
    return changed, gone


def replace_episodes(
    dataset: lance.LanceDataset,
    episode_ids: Iterable[str],
    *,
    fragments: Sequence[FragmentMetadata],
    properties: Mapping[str, str],
) -> lance.LanceDataset:
    """Delete all rows of some episodes and add staged rows, in one commit.

    Args:
        dataset: The table at its newest version.
        episode_ids: Whose rows go. Ids without rows are allowed.
        fragments: From `stage`.
        properties: Transaction properties of the commit.

    Returns:
        The table at the new version; as it was, where no row goes or comes and there are no properties to record.
    """
    changed, gone = _without(dataset, episode_ids)
    if not (changed or gone or fragments or properties):
        return dataset
    operation = lance.LanceOperation.Update(removed_fragment_ids=gone, updated_fragments=changed, new_fragments=list(fragments))
    return commit(dataset, operation, properties=properties)


def commit(dataset: lance.LanceDataset, operation: Any, *, properties: Mapping[str, str]) -> lance.LanceDataset:
    """Commit an operation on a table at its newest version. Every change of rows goes through here.

    Raises:
        ConflictError: Something that does not take the lock changed the same rows meanwhile.
    """
    transaction = lance.Transaction(dataset.version, operation, transaction_properties=dict(properties))
    try:
        with writing(dataset):
            return lance.LanceDataset.commit(dataset, transaction, max_retries=0)
    except CommitConflictError as error:
        raise ConflictError(
            f"Lance table {dataset.uri}: another program changed it after version {dataset.version}. Stop it and build again."
        ) from error


def restore(dataset: lance.LanceDataset, version: int) -> lance.LanceDataset:
    """Make an earlier version the newest content of a table: what a killed build left behind is no longer visible."""
    return commit(dataset, lance.LanceOperation.Restore(version), properties={})

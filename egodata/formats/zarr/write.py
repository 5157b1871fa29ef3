"""Writing one episode group with zarr. Everything that decides its layout on disk is here."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec
from zarr.core.array_spec import ArrayConfigParams
from zarr.core.group import Group
from zarr.dtype import VariableLengthBytes
from zarr.errors import UnstableSpecificationWarning

from egodata.annotations import Annotations, encode_span
from egodata.schema.digests import array_digest, combined_digest, elements_digest
from egodata.schema.features import NUMERIC_CHUNK_ROWS

_CONFIG: ArrayConfigParams = {"write_empty_chunks": True}


def create_group(folder: Path) -> Group:
    """Make a new group; its attributes are written last, by `write_attributes`."""
    return zarr.create_group(store=str(folder), zarr_format=3)


def write_attributes(group: Group, attributes: Mapping[str, Any]) -> None:
    """Write the group's attributes."""
    group.attrs.put(dict(attributes))


def write_numeric(group: Group, key: str, *, array: NDArray[Any]) -> str:
    """Write one numeric array and return its digest.

    Chunks of 100 rows with a crc32c each, all in one shard; the array ends at T, every chunk is written, float fill is NaN.
    Numbers are not compressed: poses shrink little, and a window reads without a decompressor.

    Args:
        group: Where.
        key: Feature key.
        array: Shape (T, ...), T at least 1.
    """
    rows, rest = array.shape[0], array.shape[1:]
    shard_rows = -(-rows // NUMERIC_CHUNK_ROWS) * NUMERIC_CHUNK_ROWS
    fill: Any = np.nan if array.dtype.kind == "f" else array.dtype.type(0)
    stored = group.create_array(
        key,
        shape=array.shape,
        chunks=(NUMERIC_CHUNK_ROWS, *rest),
        shards=(shard_rows, *rest),
        dtype=array.dtype.newbyteorder("<"),
        fill_value=fill,
        compressors=Crc32cCodec(),
        config=_CONFIG,
    )
    stored[:] = array
    return array_digest(key, array)


def write_elements(group: Group, key: str, *, elements: Iterable[bytes], count: int) -> str:
    """Write variable-length elements as they come, one chunk file each, and return their digest.

    Args:
        group: Where.
        key: ``images.<camera>`` or an annotation key.
        elements: Exactly `count` of them.
        count: How many.
    """
    with warnings.catch_warnings():
        # zarr: "does not have a Zarr V3 specification"; docs/format.md pins the bytes and the golden set checks them
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        stored = group.create_array(
            key, shape=(count,), chunks=(1,), dtype=VariableLengthBytes(), fill_value=b"", compressors=None, config=_CONFIG
        )

    def written() -> Iterator[bytes]:
        cell = np.empty(1, object)
        for number, element in enumerate(elements):
            cell[0] = element
            stored[number : number + 1] = cell
            yield element

    return elements_digest(key, written(), count=count)


def write_annotations(group: Group, annotations: Annotations) -> str:
    """Write every annotation key, empty ones included, and return the combined digest."""
    parts = {}
    for key, spans in sorted(annotations.items()):
        parts[key] = write_elements(group, key, elements=[encode_span(span) for span in spans], count=len(spans))
    return combined_digest(parts)


def annotations_digest(annotations: Annotations) -> str:
    """Digest annotations without writing them."""
    parts = {key: elements_digest(key, [encode_span(span) for span in spans], count=len(spans)) for key, spans in annotations.items()}
    return combined_digest(parts)

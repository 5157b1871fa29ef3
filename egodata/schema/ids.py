"""Names that may be used for episodes, datasets, features and roles."""

import re
from collections.abc import Iterable

from egodata.errors import SchemaError

EPISODE_ID = re.compile(r"[A-Za-z0-9_-]{1,96}")
DATASET_NAME = re.compile(r"[A-Za-z0-9_.-]{1,96}")
FEATURE_KEY = re.compile(r"[a-z0-9][a-z0-9_.]{0,95}")
HEADS = ("train", "seen", "unseen_operator")
ANNOTATION_PREFIX = "annotations"


def check_episode_id(value: str) -> str:
    """Return an episode id unchanged, or refuse it.

    Raises:
        SchemaError: The id is empty, longer than 96, or has a character outside ``[A-Za-z0-9_-]``.
    """
    if not EPISODE_ID.fullmatch(value):
        raise SchemaError(f"episode id {value!r}: expected 1 to 96 characters of A-Z a-z 0-9 _ -. Rename the recording.")
    return value


def check_dataset_name(value: str, what: str = "dataset name") -> str:
    """Return a dataset or version name unchanged, or refuse it.

    Raises:
        SchemaError: It is empty, has a character outside ``[A-Za-z0-9_.-]``, contains ``--``, or begins or ends with ``-``
            (names joined by ``--`` have to come apart again).
    """
    if not DATASET_NAME.fullmatch(value) or "--" in f"-{value}-" or set(value) <= {"."}:
        raise SchemaError(
            f"{what} {value!r}: expected 1 to 96 characters of A-Z a-z 0-9 _ . - without '--' and no '-' at the ends. Choose another."
        )
    return value


def check_dataset_version(value: str) -> str:
    """Return a version unchanged, or refuse it.

    Raises:
        SchemaError: It is not allowed as a name, or it is ``latest``.
    """
    if value == "latest":
        raise SchemaError("dataset version 'latest': it moves, a frozen version does not. Name the version, such as v2.")
    return check_dataset_name(value, "dataset version")


def check_feature_key(value: str) -> str:
    """Return a feature key unchanged, or refuse it.

    Raises:
        SchemaError: It has a character outside ``[a-z0-9_.]`` or contains ``__``, which Lance column names use.
    """
    if not FEATURE_KEY.fullmatch(value) or "__" in value:
        raise SchemaError(f"feature key {value!r}: expected a-z 0-9 _ . without '__'. Rename the feature.")
    return value


def sorted_ids(values: Iterable[str]) -> list[str]:
    """Sort ids by their UTF-8 bytes, whatever the locale."""
    return sorted(values, key=lambda value: value.encode())


def case_collisions(values: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of different ids that are equal when case is ignored, sorted."""
    seen: dict[str, str] = {}
    pairs = []
    for value in sorted_ids(set(values)):
        other = seen.setdefault(value.lower(), value)
        if other != value:
            pairs.append((other, value))
    return pairs


def dataset_ref(text: str) -> tuple[str, str]:
    """Split ``name@version``.

    Raises:
        SchemaError: There is no version, it is ``latest``, or a name is not allowed.
    """
    name, at, version = text.partition("@")
    if not at or not version:
        raise SchemaError(f"dataset {text!r}: expected NAME@VERSION, got no version. See `egodata dataset list STORE`.")
    if version == "latest":
        raise SchemaError(f"dataset {text!r}: 'latest' moves, a frozen version does not. Name the version.")
    return check_dataset_name(name), check_dataset_version(version)

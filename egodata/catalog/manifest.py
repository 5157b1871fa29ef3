"""The manifest of a frozen dataset: identity, which the digest covers, and provenance, which it does not."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from egodata.catalog.rows import CatalogRow
from egodata.errors import GateError, NotFoundError
from egodata.names import nearest
from egodata.schema.canonical import canonical_json, json_digest, jsonable
from egodata.schema.ids import HEADS

MANIFEST_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class HeadEpisode:
    """One episode of a head, as it was when the dataset was frozen.

    Attributes:
        episode_id: The episode.
        frames: Its length.
        content: Content digest; the dataset opens the newest verified build of it.
        media: Media digest, for leakage checks.
        recording_id: Capture that it was cut from; empty where it equals the episode id.
        operator: Qualified operator that the rule used, or None.
        session: Session that the rule used, or None.
    """

    episode_id: str
    frames: int
    content: str
    media: str = ""
    recording_id: str = ""
    operator: str | None = None
    session: str | None = None

    @property
    def recording(self) -> str:
        """Recording id, never empty."""
        return self.recording_id or self.episode_id


@dataclass(frozen=True, slots=True)
class Manifest:
    """A frozen dataset.

    Attributes:
        name: Of the dataset.
        version: Of the dataset; with the name it is how people refer to it.
        digest: SHA-256 of the canonical identity: its name for ever.
        heads: Episodes of each head in order; only the heads that the rule makes.
        pins: Episode ids rendered in every run, per head, in the order shown.
        provenance: Time, code version, format, table versions, counts. Not part of the digest.
        rule: The rule as plain values, without name, version and seed.
        seed: Of the split.
        held_out_operators: Operators that no training episode may have.
    """

    name: str
    version: str
    digest: str
    heads: Mapping[str, tuple[HeadEpisode, ...]]
    pins: Mapping[str, tuple[str, ...]]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    rule: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    held_out_operators: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"

    @property
    def lance_versions(self) -> dict[str, int] | None:
        """Lance table versions that it was frozen from; None if it was frozen from zarr."""
        versions = self.provenance.get("lance_versions")
        return None if versions is None else {table: int(version) for table, version in versions.items()}

    def head(self, name: str) -> tuple[HeadEpisode, ...]:
        """Return the episodes of one head in order.

        Raises:
            NotFoundError: The dataset has no such head.
        """
        if name not in self.heads:
            raise NotFoundError(f"dataset {self.ref}: no head {name!r}; {nearest(name, self.heads)}")
        return self.heads[name]


def head_episode(row: CatalogRow) -> HeadEpisode:
    """Take from a catalog row what a manifest records."""
    recording = "" if row.recording_id == row.episode_id else row.recording_id
    return HeadEpisode(row.episode_id, row.n_frames, row.content, row.media, recording, row.operator, row.session)


def identity(manifest: Manifest) -> dict[str, Any]:
    """Return what the digest covers: schema, rule, seed, heads with ids, frame counts, contents, operators and sessions, and pins.

    Episodes are kept as columns, and operators and sessions as positions in a sorted list, so that 100,000 episodes stay under 20 MB.
    """
    episodes = [episode for members in manifest.heads.values() for episode in members]
    operators = sorted({e.operator for e in episodes if e.operator is not None}, key=str.encode)
    sessions = sorted({e.session for e in episodes if e.session is not None}, key=str.encode)
    operator_at: dict[str | None, int] = {name: at for at, name in enumerate(operators)}
    session_at: dict[str | None, int] = {name: at for at, name in enumerate(sessions)}
    heads = {}
    for head, members in manifest.heads.items():
        heads[head] = {
            "ids": [e.episode_id for e in members],
            "frames": [e.frames for e in members],
            "contents": [e.content for e in members],
            "media": [e.media for e in members],
            "recordings": [e.recording_id or None for e in members],
            "operators": [operator_at.get(e.operator) for e in members],
            "sessions": [session_at.get(e.session) for e in members],
        }
    return {
        "schema": MANIFEST_SCHEMA,
        "rule": jsonable(dict(manifest.rule)),
        "seed": manifest.seed,
        "heads": heads,
        "operators": operators,
        "sessions": sessions,
        "held_out_operators": list(manifest.held_out_operators),
        "pins": {head: list(ids) for head, ids in manifest.pins.items()},
    }


def manifest_digest(manifest: Manifest) -> str:
    """Return the SHA-256 of the canonical identity; name, version and provenance do not enter."""
    return json_digest(identity(manifest))


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the canonical bytes of the file."""
    return canonical_json(
        {
            "name": manifest.name,
            "version": manifest.version,
            "digest": manifest.digest,
            "identity": identity(manifest),
            "provenance": jsonable(dict(manifest.provenance)),
        }
    )


def manifest_from_bytes(data: bytes, *, where: str) -> Manifest:
    """Read a manifest and check its digest.

    Args:
        data: The file.
        where: Named in errors.

    Raises:
        GateError: Not a manifest, written by a newer schema, or changed since it was frozen.
    """
    try:
        value = json.loads(data)
        schema = value["identity"]["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise GateError(f"{where}: not a manifest ({type(error).__name__}: {error}). Restore it, or freeze the rule again.") from error
    if schema != MANIFEST_SCHEMA:
        raise GateError(f"{where}: manifest schema {schema!r}, this egodata reads {MANIFEST_SCHEMA}. Upgrade egodata.")
    found = json_digest(value["identity"])
    if found != value.get("digest"):
        raise GateError(
            f"{where}: changed since it was frozen: expected digest {str(value.get('digest'))[:16]}, got {found[:16]}. "
            f"Restore the file, or freeze the rule as a new version."
        )
    return _from_json(value)


def _from_json(value: Mapping[str, Any]) -> Manifest:
    body = value["identity"]
    heads = {name: _head_from_columns(body["heads"][name], body) for name in HEADS if name in body["heads"]}
    return Manifest(
        name=value["name"],
        version=value["version"],
        digest=value["digest"],
        heads=heads,
        pins={name: tuple(body["pins"][name]) for name in HEADS if name in body["pins"]},
        provenance=value["provenance"],
        rule=body["rule"],
        seed=body["seed"],
        held_out_operators=tuple(body["held_out_operators"]),
    )


def _head_from_columns(columns: Mapping[str, list[Any]], body: Mapping[str, Any]) -> tuple[HeadEpisode, ...]:
    def named(table: str, at: int | None) -> str | None:
        return None if at is None else str(body[table][at])

    names = ("ids", "frames", "contents", "media", "recordings", "operators", "sessions")
    return tuple(
        HeadEpisode(episode_id, frames, content, media, recording or "", named("operators", operator), named("sessions", session))
        for episode_id, frames, content, media, recording, operator, session in zip(*(columns[n] for n in names), strict=True)
    )

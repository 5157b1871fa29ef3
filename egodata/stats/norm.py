"""Norm statistics as a value: what is kept, how it is written, and the normalisers made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.errors import ConfigError, InputError
from egodata.names import nearest
from egodata.schema.canonical import canonical_json, json_digest
from egodata.stats.fields import FIELDS
from egodata.stats.normalise import MODES, AffineNormaliser, Mode, affine, without_scale

STATS_SCHEMA = 1
FEATURES = ("action", "proprio")


@dataclass(frozen=True, slots=True, eq=False)
class FeatureStats:
    """Statistics of the action or of proprio.

    Attributes:
        names: One per channel.
        kept: Channels that are never normalised: 6D rotations.
        fields: Each of `FIELDS` as float64; (S, D) for actions, (P,) for proprio. NaN where nothing was counted.
    """

    names: tuple[str, ...]
    kept: tuple[int, ...]
    fields: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class FlatChannel:
    """A channel without scale, which normalises to 0 and comes back as its centre.

    Attributes:
        feature: ``action`` or ``proprio``.
        channel: Its name.
        steps: Steps concerned; empty for proprio.
    """

    feature: str
    channel: str
    steps: tuple[int, ...]

    def __str__(self) -> str:
        steps = f" steps {_ranges(self.steps)}" if self.steps else ""
        return f"{self.feature} {self.channel}{steps}"


@dataclass(frozen=True, slots=True, eq=False)
class NormStats:
    """Statistics of a training head under a recipe. A checkpoint carries `to_json`.

    Attributes:
        key: SHA-256 that the cache goes by; see `stats_key`.
        train_digest: Digest of the training head's ids and contents.
        recipe_digest: Digest of what the recipe says about numbers.
        episodes: Episodes of the head.
        windows: Windows used.
        features: ``action`` and ``proprio``.
        cached: Whether it was read from the cache.
        path: Its file; None where it could not be kept.
    """

    key: str
    train_digest: str
    recipe_digest: str
    episodes: int
    windows: int
    features: Mapping[str, FeatureStats]
    cached: bool = field(default=False)
    path: Path | None = field(default=None)

    def normalisers(self, mode: Mode = "quantile") -> dict[str, AffineNormaliser]:
        """Return the normalisers of ``action`` and ``proprio``.

        Raises:
            ConfigError: Another mode than quantile, minmax or zscore.
        """
        _check_mode(mode)
        return {name: affine(stats.fields, mode, kept=stats.kept) for name, stats in self.features.items()}

    def flat_channels(self, mode: Mode = "quantile") -> list[FlatChannel]:
        """Return the channels whose range (or std) is below the floor, at some step at least."""
        _check_mode(mode)
        found = []
        for feature, stats in self.features.items():
            flat = without_scale(stats.fields, mode, kept=stats.kept)
            for channel in np.flatnonzero(np.atleast_2d(flat).any(axis=0)):
                steps = np.flatnonzero(flat[:, channel]).tolist() if flat.ndim == 2 else []
                found.append(FlatChannel(feature, stats.names[channel], tuple(steps)))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain types, its own digest included; the same whether cached or not."""
        body = {
            "schema": STATS_SCHEMA,
            "key": self.key,
            "train_digest": self.train_digest,
            "recipe_digest": self.recipe_digest,
            "episodes": self.episodes,
            "windows": self.windows,
            "features": {name: _feature_json(stats) for name, stats in self.features.items()},
        }
        return {**body, "digest": json_digest(body)}

    def to_bytes(self) -> bytes:
        """Return the canonical bytes of the file."""
        return canonical_json(self.to_json())

    @classmethod
    def from_json(cls, value: Any, *, where: str = "statistics") -> "NormStats":
        """Read what `to_json` gave.

        Args:
            value: Plain types.
            where: Named in errors.

        Raises:
            InputError: A field is missing (it is named), the schema is another one, or the content was changed.
        """
        if not isinstance(value, dict) or value.get("schema") != STATS_SCHEMA:
            found = value.get("schema") if isinstance(value, dict) else type(value).__name__
            raise InputError(f"{where}: expected statistics schema {STATS_SCHEMA}, got {found!r}. {_AGAIN}")
        names = ("key", "train_digest", "recipe_digest", "episodes", "windows", "features", "digest")
        head = {name: _need(value, name, where, name) for name in names}
        features = {name: _feature_from_json(_need(head["features"], name, where, f"features.{name}"), name, where) for name in FEATURES}
        if json_digest({key: item for key, item in value.items() if key != "digest"}) != head["digest"]:
            raise InputError(f"{where}: changed since it was written (its digest does not fit). {_AGAIN}")
        return cls(**{name: head[name] for name in names[:5]}, features=features)


_AGAIN = "Compute it again with `egodata stats STORE NAME@VERSION --recipe RECIPE`."


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise ConfigError(f"normalisation mode {mode!r}: {nearest(mode, MODES)}")


def _need(value: Any, name: str, where: str, path: str) -> Any:
    if not isinstance(value, Mapping) or name not in value:
        raise InputError(f"{where}: field {path} is missing. {_AGAIN}")
    return value[name]


def _feature_json(stats: FeatureStats) -> dict[str, Any]:
    fields = {name: values.tolist() for name, values in stats.fields.items()}
    fields["count"] = stats.fields["count"].astype(int).tolist()
    return {"names": list(stats.names), "kept": list(stats.kept), **_nan_to_none(fields)}


def _nan_to_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nan_to_none(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_nan_to_none(item) for item in value]
    return None if value != value else value


def _feature_from_json(value: Any, feature: str, where: str) -> FeatureStats:
    names = tuple(_need(value, "names", where, f"{feature}.names"))
    kept = tuple(_need(value, "kept", where, f"{feature}.kept"))
    fields = {}
    for name in FIELDS:
        fields[name] = np.array(_need(value, name, where, f"{feature}.{name}"), dtype=np.float64)
        if fields[name].shape[-1:] != (len(names),) or fields[name].shape != fields["count"].shape:
            raise InputError(f"{where}: field {feature}.{name} has shape {fields[name].shape}, expected {len(names)} channels. {_AGAIN}")
    return FeatureStats(names, kept, fields)


def _ranges(steps: tuple[int, ...]) -> str:
    """Write steps as ranges: (0, 1, 2, 9) is ``0-2, 9``."""
    parts: list[list[int]] = []
    for step in steps:
        if parts and parts[-1][1] == step - 1:
            parts[-1][1] = step
        else:
            parts.append([step, step])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)

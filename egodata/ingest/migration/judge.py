"""Is a recording of the store older than what this egodata would write, and how would it be built again?"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from egodata.errors import ConfigError, EgodataError, NotFoundError
from egodata.ingest.build import chosen_digest, portable_x264
from egodata.ingest.clips import ClipRule
from egodata.ingest.declare import UNKNOWN
from egodata.ingest.ledger import LedgerEntry
from egodata.ingest.sources import get_source
from egodata.schema.canonical import canonical_json
from egodata.schema.features import HAND_FRAME_CONVENTIONS
from egodata.schema.layout import ALGORITHMS, SCHEMA_VERSION, schema_order
from egodata.vendors import VENDORS, Vendor, VendorOptions
from egodata.video import PROFILES, EncodeSettings

CURRENT, OUTDATED, BLOCKED, NEWER = "current", "outdated", "cannot_be_rebuilt", "newer"
STATES = (CURRENT, OUTDATED, BLOCKED, NEWER)
_SHOWN = 3
_UNPROVEN = (
    "how it was built is not recorded: its settings are neither those that its episodes tell nor shipped ones. "
    "Give --clips FILE where it was cut, and --config FILE where it had its own."
)
_DECLARED = (None, *(name for name in HAND_FRAME_CONVENTIONS if name != UNKNOWN))


@dataclass(frozen=True, slots=True)
class Given:
    """What a person says about recordings of which the store does not know how they were built.

    Attributes:
        config: Vendor config by name or path.
        clips: How they were cut.
    """

    config: str | None = None
    clips: ClipRule | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """How a recording is built again.

    Attributes:
        config: Vendor config by name or path, None for the shipped one.
        encode: Encoder settings.
        declare: Hand frame that was declared.
        clips: Values of its clip rule, None for none.
        force: Whether ingest would take it for unchanged.
    """

    config: str | None
    encode: EncodeSettings
    declare: str | None
    clips: Mapping[str, Any] | None
    force: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """One recording that was built.

    Attributes:
        entry: Its ledger entry.
        state: ``current``, ``outdated``, ``cannot_be_rebuilt`` (outdated, and why not is in `blocked`) or ``newer`` than this egodata.
        reasons: What is older, in words.
        blocked: Why it cannot be rebuilt.
        note: What else a person should know.
        settings: How it would be rebuilt, where that is known.
    """

    entry: LedgerEntry
    state: str
    reasons: tuple[str, ...] = ()
    blocked: str = ""
    note: str = ""
    settings: Settings | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        entry = self.entry
        return {
            "recording": entry.recording,
            "vendor": entry.vendor,
            "dataset": entry.dataset,
            "delivery": entry.delivery,
            "state": self.state,
            "reasons": list(self.reasons),
            "blocked": self.blocked,
            "note": self.note,
            "episodes": dict(entry.episodes),
        }


@dataclass(frozen=True, slots=True)
class Configs:
    """Reads every vendor config once, as long as a plan is made."""

    _known: dict[tuple[str, str | None, str | None], dict[str, Any]] = field(default_factory=dict)

    def values(self, source: Vendor, *, config: str | None, declare: str | None) -> dict[str, Any]:
        """Return the values of a vendor config.

        Raises:
            ConfigError: It has an unknown key or a wrong value.
            NotFoundError: There is none.
        """
        key = (source.name, config, declare)
        if key not in self._known:
            self._known[key] = source.settings(VendorOptions("", "", config, declare))
        return self._known[key]


@dataclass(slots=True)
class _Case:
    """What is found out about one recording."""

    entry: LedgerEntry
    source: Vendor
    given: Given
    configs: Configs
    reasons: list[str] = field(default_factory=list)
    blocked: str = ""

    def vendor_settings(self, config: str | None, declare: str | None) -> dict[str, Any]:
        return self.configs.values(self.source, config=config, declare=declare)


def judge(
    entry: LedgerEntry, attributes: Mapping[str, Mapping[str, Any] | EgodataError], *, given: Given, configs: Configs | None = None
) -> Judged:
    """Compare how a recording was built with how this egodata would build it now.

    Args:
        entry: Of the ledger.
        attributes: Of its published episodes by id, or why they cannot be read.
        given: Used where the store does not know.
        configs: Shared by the recordings of a plan.
    """
    try:
        source = get_source(entry.vendor)
    except NotFoundError as error:
        return Judged(entry, BLOCKED, ("its vendor is gone",), str(error))
    now = f"{entry.vendor}/{source.version}"
    if _number(entry.converter) > source.version:
        return Judged(entry, NEWER, note=f"made by converter {entry.converter}, this egodata has {now}; it stays as it is")
    case = _Case(entry, source, given, configs or Configs())
    if entry.converter != now:
        case.reasons.append(f"converter {entry.converter} -> {now}")
    case.reasons += _schema_reasons(attributes)
    settings = _settings(case, next((found for found in attributes.values() if isinstance(found, Mapping)), {}))
    unread = next((str(found) for found in attributes.values() if isinstance(found, EgodataError)), None)
    if unread is not None and not case.reasons:
        case.reasons, case.blocked = ["an episode of it cannot be read"], f"{unread} `egodata ingest` builds it again."
    if not case.reasons:
        return Judged(entry, CURRENT, note=case.blocked)
    return Judged(entry, BLOCKED if case.blocked else OUTDATED, tuple(case.reasons), case.blocked, settings=settings)


def schema_reason(attributes: Mapping[str, Any]) -> str | None:
    """Say that an episode is of an older schema, or None."""
    here = str(attributes.get("schema_version", "v3.0"))
    found, known = schema_order(here), schema_order(SCHEMA_VERSION)
    older = found is None or (known is not None and found < known)
    return f"episode schema {here} -> {SCHEMA_VERSION}" if older else None


def _schema_reasons(attributes: Mapping[str, Mapping[str, Any] | EgodataError]) -> list[str]:
    found = (schema_reason(one) for one in attributes.values() if isinstance(one, Mapping))
    return sorted({reason for reason in found if reason is not None})


def _number(converter: str) -> int:
    text = converter.rpartition("/")[2]
    return int(text) if text.isdecimal() else 0


def _settings(case: _Case, attributes: Mapping[str, Any]) -> Settings | None:
    """Find what a recording was built with, add what differs now to the reasons, and return how to build it again."""
    try:
        recorded = dict(case.entry.choices) or _deduced(case, attributes)
        if not recorded:
            recorded = {**_told(attributes), **_given_clips(case)}
            case.blocked = "" if recorded["encode"] and case.given.clips is not None else _UNPROVEN
        return None if case.blocked else _compared(case, recorded)
    except (ConfigError, NotFoundError, KeyError, TypeError) as error:
        case.blocked = f"its settings are not possible any more: {error}"
        return None


def _compared(case: _Case, recorded: Mapping[str, Any]) -> Settings:
    declare = recorded.get("declare") or (None if case.entry.vendor in VENDORS else recorded["vendor"].get("declare"))
    config, vendor = _vendor_config(case, recorded, declare)
    case.reasons += _differences(f"{case.entry.vendor} config", recorded["vendor"], vendor)
    encode = _encode(recorded["encode"])
    changed = _differences(f"encoder profile {encode.profile}", recorded["encode"], encode.to_json())
    if not changed and "x264" in recorded:
        changed = _differences("encoder parameters", _pairs(recorded["x264"]), _pairs(portable_x264(encode)))
    case.reasons += changed
    if recorded.get("digests", 1) < ALGORITHMS["digests"]:
        case.reasons.append(f"digest algorithm {recorded.get('digests', 1)} -> {ALGORITHMS['digests']}")
    wanted = {**{name: recorded[name] for name in ("declare", "clips") if name in recorded}, "encode": encode.to_json(), "vendor": vendor}
    same = case.entry.converter == f"{case.entry.vendor}/{case.source.version}" and chosen_digest(wanted) == case.entry.settings
    return Settings(config, encode, declare, recorded.get("clips"), force=same)


def _vendor_config(case: _Case, recorded: Mapping[str, Any], declare: str | None) -> tuple[str | None, Mapping[str, Any]]:
    """Return the vendor config to build with and its values; where nobody knows the file, the recorded values stand."""
    if "config" in recorded:
        config = recorded["config"]
        if config is None or not config.endswith((".yaml", ".yml")) or Path(config).is_file():
            return config, case.vendor_settings(config, declare)
        lost = f"its vendor config {config} is gone"
    else:
        shipped = case.vendor_settings(None, declare)
        if all(_plain(shipped[key]) == _plain(value) for key, value in recorded["vendor"].items() if key in shipped):
            return None, shipped
        lost = "its vendor config is not the shipped one, and nothing says which file it was"
    if case.given.config is not None:
        return case.given.config, case.vendor_settings(case.given.config, declare)
    case.blocked = f"{lost}. Give --config FILE, or --config {case.entry.vendor} for the shipped one."
    return None, recorded["vendor"]


def _encode(recorded: Mapping[str, Any]) -> EncodeSettings:
    """Return today's settings of a shipped profile by its name, else those that were recorded."""
    shipped = PROFILES.get(str(recorded.get("profile")))
    return shipped if shipped is not None else EncodeSettings(**recorded)


def _told(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an episode says about its own build."""
    processing = attributes.get("processing") or {}
    encode = dict(processing.get("encode") or {})
    x264 = encode.pop("x264", None)
    found: dict[str, Any] = {"encode": encode, "vendor": dict(processing.get("settings") or {})}
    return found if x264 is None else {**found, "x264": ":".join(item for item in str(x264).split(":") if not item.startswith("asm="))}


def _deduced(case: _Case, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Find the choices whose digest an older ledger entry holds; empty where none fits.

    An episode tells them, unless a later build with other settings gave equal content and so kept the episode as it was.
    """
    declared = _DECLARED if case.entry.vendor in VENDORS else (None,)
    for base, clips, declare in product(_candidates(case, attributes), ({}, _given_clips(case)), declared):
        found = {**base, **clips, **({} if declare is None else {"declare": declare})}
        if chosen_digest(found) == case.entry.settings:
            return found
    return {}


def _candidates(case: _Case, attributes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    told = _told(attributes)
    yield told
    encodes = [told["encode"], *(settings.to_json() for settings in PROFILES.values())]
    named: dict[str | None, Mapping[str, Any]] = {}
    if case.entry.vendor in VENDORS:
        named = {config: case.vendor_settings(config, None) for config in dict.fromkeys((None, case.given.config))}
    for encode in encodes:
        yield {"encode": encode, "vendor": told["vendor"]}
        yield from ({"encode": encode, "vendor": values, "config": config} for config, values in named.items())


def _given_clips(case: _Case) -> dict[str, Any]:
    found = None if case.given.clips is None else case.given.clips.settings(case.entry.recording)
    return {} if found is None else {"clips": found}


def _pairs(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (item.partition("=") for item in text.split(":"))}


def _plain(value: Any) -> str:
    return canonical_json(value).decode()


def _differences(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return one line that names the first values that differ, or nothing."""
    found = list(_changes(old, new))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [f"{what}: {', '.join(found[:_SHOWN])}{more}"] if found else []


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    keys: Iterable[str] = sorted({*old, *new})
    for key in keys:
        before, after = (_plain(values[key]) if key in values else "none" for values in (old, new))
        if before != after:
            yield f"{key} {before} -> {after}"

"""Findings: typed statements about what is wrong with data, instead of exceptions or silence."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import rfc8785


class Severity(IntEnum):
    """How much a finding matters; `ERROR` sets an episode aside or fails a check."""

    INFO = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem in one stream of one episode.

    Attributes:
        code: Short stable name of the kind, such as ``video-truncated``.
        severity: How much it matters.
        episode: Episode or recording id.
        message: One sentence for a person: what, expected and got, what to do.
        stream: File, feature or annotation key concerned; empty if the whole episode is.
        frames: Half-open range of frames concerned, or None.
        expected: What the rule wanted, as text.
        got: What was there, as text.
        content: Digest of what it was found in: the episode's content, or the raw files of a recording that is no episode yet.
        waived: Why a person accepts it, or empty; see `egodata.findings.waivers`. Not part of the id.
    """

    code: str
    severity: Severity
    episode: str
    message: str
    stream: str = ""
    frames: tuple[int, int] | None = None
    expected: str = ""
    got: str = ""
    content: str = ""
    waived: str = ""

    def __post_init__(self) -> None:
        """Write what UTF-8 has no form for, such as half a surrogate pair out of a damaged file, as an escape."""
        for name in ("message", "stream", "expected", "got"):
            text = getattr(self, name)
            if not text.isascii():
                object.__setattr__(self, name, text.encode("utf-8", "backslashreplace").decode())

    @property
    def id(self) -> str:
        """First 12 hex digits of SHA-256 over (code, episode, stream, range, content)."""
        key = [self.code, self.episode, self.stream, list(self.frames) if self.frames else None, self.content]
        return hashlib.sha256(rfc8785.dumps(key)).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON types, its id included."""
        return {
            "id": self.id,
            "code": self.code,
            "severity": self.severity.name.lower(),
            "episode": self.episode,
            "stream": self.stream,
            "frames": list(self.frames) if self.frames else None,
            "expected": self.expected,
            "got": self.got,
            "message": self.message,
            "content": self.content,
            "waived": self.waived or None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Finding":
        """Read what `to_json` wrote; entries that older versions lack are empty.

        Raises:
            KeyError: A required entry is missing, or the severity is not known.
        """
        frames = value.get("frames")
        return cls(
            value["code"],
            Severity[str(value["severity"]).upper()],
            value["episode"],
            value["message"],
            value.get("stream") or "",
            (int(frames[0]), int(frames[1])) if frames else None,
            value.get("expected") or "",
            value.get("got") or "",
            value.get("content") or "",
            value.get("waived") or "",
        )


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the highest severity among findings that nobody waived, or None if there are none."""
    return max((finding.severity for finding in findings if not finding.waived), default=None)


def placed(findings: Iterable[Finding], content: str) -> tuple[Finding, ...]:
    """Say in what the findings were seen, where they do not say it themselves: a corrected delivery gives other ids."""
    return tuple(finding if finding.content else replace(finding, content=content) for finding in findings)

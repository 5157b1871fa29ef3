"""Findings: typed statements about what is wrong with data, instead of exceptions or silence."""

import hashlib
from dataclasses import dataclass
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
        content: Content digest of the episode, once it has one.
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
        }


def worst(findings: list[Finding]) -> Severity | None:
    """Return the highest severity among findings, or None if there are none."""
    return max((f.severity for f in findings), default=None)

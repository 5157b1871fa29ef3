"""Hand frames that a person declares for deliveries that carry none."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeDraft
from egodata.errors import ConfigError
from egodata.findings import Finding, Severity
from egodata.geometry.hand import convert_left_hand
from egodata.names import nearest
from egodata.schema.features import HAND_FRAME_CONVENTIONS
from egodata.vendors import SetAside

WRITTEN = "anat-v1"
UNKNOWN = "unknown"


def check_declared(declare: str | None) -> None:
    """Check what a person gave for --declare.

    Raises:
        ConfigError: Not a hand frame convention.
    """
    known = [name for name in HAND_FRAME_CONVENTIONS if name != UNKNOWN]
    if declare is not None and declare not in known:
        raise ConfigError(f"--declare {declare!r}: not a hand frame convention; {nearest(declare, known)}")


def with_declared_frame(draft: EpisodeDraft, declare: str | None) -> EpisodeDraft:
    """Turn the left hand of an undeclared draft into the convention that new episodes have, by what a person declared.

    Args:
        draft: From a vendor; one whose convention is known stays, and says so where something was declared.
        declare: ``anat-v1``, ``mirror-left-v1`` or None.

    Raises:
        SetAside: The draft has hand rotations of an unknown convention and nothing is declared.
    """
    episode_id = draft.meta.episode_id
    if draft.meta.hand_frame_convention != UNKNOWN:
        if declare is None or draft.meta.hand_frame_convention is None:
            return draft
        message = f"--declare {declare} is not used: the vendor's data says {draft.meta.hand_frame_convention} by itself."
        return replace(draft, findings=(*draft.findings, Finding("declare-unused", Severity.WARNING, episode_id, message)))
    if declare is None:
        message = f"episode {episode_id}: hand rotations of an undeclared convention. Say which with --declare anat-v1 or mirror-left-v1."
        raise SetAside((*draft.findings, Finding("hand-frame-undeclared", Severity.ERROR, episode_id, message)))
    meta = replace(draft.meta, hand_frame_convention=WRITTEN, processing={**draft.meta.processing, "declared_hand_frame": declare})
    return replace(draft, meta=meta, arrays=_turned(draft, declare))


def _turned(draft: EpisodeDraft, declare: str) -> Mapping[str, NDArray[Any]]:
    arrays = dict(draft.arrays)
    for key, values in draft.arrays.items():
        if key.startswith("left.") and draft.meta.features[key].shape == (7,):
            out = np.array(values)
            valid = np.isfinite(out).all(axis=1)
            out[valid] = convert_left_hand(out[valid], declared=declare, wanted=WRITTEN).astype(out.dtype)
            arrays[key] = out
    return arrays

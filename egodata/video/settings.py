"""Encoder settings: the profiles, and which values the format allows."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from egodata.errors import ConfigError

PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")


@dataclass(frozen=True, slots=True)
class EncodeSettings:
    """How camera streams are encoded. Everything here is recorded in the episode, because it decides the bytes.

    A stored element is a self-contained mp4 of `frames_per_chunk` frames that starts on a keyframe, with closed GOPs and
    runs of `bframes` B-frames that nothing refers to, so that a reader can leave out every B-frame it does not want.

    Attributes:
        profile: Name of the combination, for people.
        codec: Always ``h264``.
        crf: Constant rate factor, 1 to 40; lower is better and larger.
        preset: x264 preset.
        tune: ``fastdecode`` or empty.
        gop: Frames from keyframe to keyframe.
        bframes: Disposable B-frames between reference frames, 0 to 15 and below `gop`.
        pix_fmt: Always ``yuv420p`` (bt709, limited range).
        frames_per_chunk: Frames per stored element.
        threads: Encoder threads; x264's bytes depend on it, so it is a setting and not the machine's choice.
    """

    profile: str = "custom"
    codec: str = "h264"
    crf: float = 18
    preset: str = "veryfast"
    tune: str = "fastdecode"
    gop: int = 30
    bframes: int = 7
    pix_fmt: str = "yuv420p"
    frames_per_chunk: int = 300
    threads: int = 1

    def __post_init__(self) -> None:
        allowed = {
            "codec": (self.codec == "h264", "h264"),
            "pix_fmt": (self.pix_fmt == "yuv420p", "yuv420p"),
            "preset": (self.preset in PRESETS, "one of " + ", ".join(PRESETS)),
            "tune": (self.tune in ("", "fastdecode"), "fastdecode or empty"),
            "crf": (1 <= self.crf <= 40, "1 to 40"),
            "gop": (1 <= self.gop <= 300, "1 to 300 frames"),
            "bframes": (0 <= self.bframes <= 15 and self.bframes < self.gop, f"0 to 15 and below gop ({self.gop})"),
            "frames_per_chunk": (1 <= self.frames_per_chunk <= 3000, "1 to 3000 frames"),
            "threads": (1 <= self.threads <= 64, "1 to 64"),
        }
        wrong = [f"{name}: expected {rule}, got {getattr(self, name)!r}" for name, (good, rule) in allowed.items() if not good]
        if wrong:
            raise ConfigError(f"encode settings: {'; '.join(wrong)}")

    def to_json(self) -> dict[str, Any]:
        """Return every setting as plain JSON types."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def x264_options(self) -> dict[str, str]:
        """Return the options that the encoder is opened with.

        Rate control is set for pictures that machines read, by decision 006: bits go where frames refer to (`mbtree`) and not to where
        an eye would see errors (`aq-mode` off); motion is searched finely (`subme`) in whole macroblocks (`partitions`), which costs less.
        x264's AVX-512 code for `mbtree` reads uninitialised memory: with B-frames equal frames gave several streams. Its AVX2 code does
        not, so that one is asked for.
        """
        params: dict[str, object] = {
            "keyint": self.gop,
            "min-keyint": self.gop,
            "scenecut": 0,
            "open-gop": 0,
            "bframes": self.bframes,
            "b-adapt": 0,
            "b-pyramid": "none",
            "mbtree": 1,
            "rc-lookahead": 10,
            "qcomp": 0.55,
            "ipratio": 1.2,
            "aq-mode": 0,
            "partitions": "i8x8,i4x4",
            "subme": 4,
            "threads": self.threads,
            "lookahead-threads": 1,
            "sliced-threads": 0,
            **_assembly(),
        }
        options = {"preset": self.preset, "crf": str(self.crf), "x264-params": ":".join(f"{key}={value}" for key, value in params.items())}
        return {**options, "tune": self.tune} if self.tune else options


@cache
def _assembly() -> dict[str, object]:
    """Keep x264 to AVX2 where the machine has more; elsewhere it finds out by itself what there is."""
    try:
        return {"asm": "avx2"} if " avx512f " in Path("/proc/cpuinfo").read_text() else {}
    except OSError:
        return {}


COMPACT = EncodeSettings(profile="compact", crf=17.5, gop=24, bframes=4)
"""The default. As small as x264's usual encoding (veryfast, crf 18, GOP 30, no B-frames) and as good, at a tenth of the access cost."""

SWIFT = EncodeSettings(profile="swift", crf=17.5, gop=9, bframes=3)
"""A third larger, with a chain of at most three reference frames: for data that is read frame by frame."""

PROFILES = {settings.profile: settings for settings in (COMPACT, SWIFT)}

DEFAULT_SETTINGS = COMPACT

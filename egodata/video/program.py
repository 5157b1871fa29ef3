"""The ffmpeg program as a way in for a video whose codec PyAV's build lacks: RGB frames with their times, through a pipe.

The program decodes, turns frames upright by the display matrix and converts them to RGB by their colour tags (untagged: bt601); what
comes out is a stream of rgb24 with the source's time stamps. Nothing is written to disk.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import av
from av.error import FFmpegError

from egodata.errors import VideoError

LIMIT_S = 3600
"""CPU seconds after which the program ends itself."""
_WAIT_S = 60.0
_BEFORE = ("-nostdin", "-hide_banner", "-xerror", "-timelimit", str(LIMIT_S), "-protocol_whitelist", "file")
_AFTER = ("-map", "0:v:0", "-c:v", "rawvideo", "-pix_fmt", "rgb24", "-fps_mode", "passthrough", "-f", "nut", "pipe:1")
_STREAM = re.compile(r"Stream #0:\d+.*?: Video: (\w+)(?: \([^)]*\))*(?:, (\w+))?")
_HDR = ("smpte2084", "arib-std-b67")


def find_program() -> str | None:
    """Return the ffmpeg program: the machine's own, else the one that imageio-ffmpeg brings, else None."""
    own = shutil.which("ffmpeg")
    if own is not None:
        return own
    try:
        brought = import_module("imageio_ffmpeg")
    except ImportError:
        return None
    return str(brought.get_ffmpeg_exe())


class ProgramContainer:
    """What `av.open` would give, read from the program; to be closed, which ends the program too. It cannot seek.

    Attributes:
        codec: Of the source, as the program names it.
        pix_fmt: Of the source; what is read is rgb24.
        has_audio: Whether the source has audio.
    """

    def __init__(self, path: Path, program: str) -> None:
        self._name = path.name
        self._told = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`; a pipe that nobody empties would stop the program
        self._process = subprocess.Popen(
            [program, *_BEFORE, "-i", str(path.absolute()), *_AFTER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._told,
        )
        try:
            self._container: Any = av.open(self._process.stdout, mode="r", format="nut")
        except FFmpegError as error:
            self._end()
            raise VideoError(f"video {self._name}: {self._why()}. Get the file again.") from error
        said = self._said()
        found = _STREAM.search(said)
        self.codec, self.pix_fmt = (found[1], found[2] or "") if found else ("unknown", "")
        self.has_audio = bool(re.search(r"Stream #0:\d+.*?: Audio: ", said))
        if any(name in said for name in _HDR):
            self.close()
            raise VideoError(f"video {self._name}: HDR, which is refused. Deliver it tone-mapped to bt709.")

    @property
    def streams(self) -> Any:
        """Streams: one of video."""
        return self._container.streams

    def demux(self, stream: Any) -> Iterator[Any]:
        """Yield packets.

        Raises:
            VideoError: The program did not come to the end of the file.
        """
        yield from self._container.demux(stream)
        self._check_end()

    def decode(self, stream: Any) -> Iterator[av.VideoFrame]:
        """Yield frames, rgb24 and upright.

        Raises:
            VideoError: The program did not come to the end of the file.
        """
        yield from self._container.decode(stream)
        self._check_end()

    def close(self) -> None:
        """End the program and forget what it said."""
        self._container.close()
        self._end()
        self._told.close()

    def __enter__(self) -> "ProgramContainer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_end(self) -> None:
        if self._process.wait(_WAIT_S) != 0:
            raise VideoError(f"video {self._name}: {self._why()}. Get the file again.")

    def _end(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def _said(self) -> str:
        self._told.seek(0)
        return self._told.read().decode("utf-8", "replace")

    def _why(self) -> str:
        last = next((line.strip() for line in reversed(self._said().splitlines()) if line.strip()), "nothing")
        return f"PyAV lacks its codec, and the ffmpeg program ended with {last[:160]!r}"


def open_with_program(path: Path) -> ProgramContainer:
    """Open a video whose codec PyAV lacks.

    Raises:
        VideoError: There is no program, or it cannot read the file either.
    """
    program = find_program()
    if program is None:
        raise VideoError(
            f"video {path.name}: PyAV's build lacks its codec, or the file is damaged. Install the ffmpeg program or imageio-ffmpeg, "
            "or get the file again."
        )
    return ProgramContainer(path, program)

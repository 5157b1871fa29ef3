"""Colour rules: every stored video is bt709, limited range; what came in is converted by its tags.

Untagged input follows the players' rule: bt709 from 720 lines up, bt601 below; limited range.
"""

import av
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from egodata.errors import VideoError

BT709 = 1
UNSPECIFIED = 2
LIMITED = 1
HD_LINES = 720
_HDR_TRANSFERS = {16: "PQ", 18: "HLG"}
_MATRICES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
}
_SCALING = Interpolation.BICUBIC | Interpolation.ACCURATE_RND
_PRECISE = _SCALING | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP


def source_matrix(frame: av.VideoFrame, *, where: str) -> Colorspace:
    """Return the YUV matrix that a frame was made with, by its tag or by the rule for untagged input.

    Raises:
        VideoError: The frame is HDR or has a matrix with no defined conversion here.
    """
    transfer = int(frame.color_trc)
    if transfer in _HDR_TRANSFERS:
        raise VideoError(f"video {where}: {_HDR_TRANSFERS[transfer]} (HDR) is not supported. Convert it to bt709 first.")
    tag = int(frame.colorspace)
    if tag == UNSPECIFIED or frame.format.is_rgb:
        return Colorspace.ITU709 if frame.height >= HD_LINES else Colorspace.ITU601
    if tag not in _MATRICES:
        raise VideoError(f"video {where}: colour matrix {tag} is not supported. Convert it to bt709 first.")
    return _MATRICES[tag]


def _source_range(frame: av.VideoFrame) -> ColorRange:
    full = int(frame.color_range) == 2 or frame.format.name.startswith("yuvj")
    return ColorRange.JPEG if full else ColorRange.MPEG


def _is_stored_form(frame: av.VideoFrame) -> bool:
    return frame.format.name in ("yuv420p", "yuvj420p") and frame.width % 2 == 0 and frame.height % 2 == 0


def to_stored(frame: av.VideoFrame, reformatter: VideoReformatter, *, size: tuple[int, int], where: str) -> av.VideoFrame:
    """Convert a decoded frame to the stored form: yuv420p, bt709, limited range, (width, height) in pixels."""
    rgb = frame.format.is_rgb
    return reformatter.reformat(
        frame,
        width=size[0],
        height=size[1],
        format="yuv420p",
        src_colorspace=None if rgb else source_matrix(frame, where=where),
        dst_colorspace=Colorspace.ITU709,
        src_color_range=ColorRange.JPEG if rgb else _source_range(frame),
        dst_color_range=ColorRange.MPEG,
        interpolation=_SCALING,
        threads=1,
    )


def to_rgb(frame: av.VideoFrame, reformatter: VideoReformatter, *, size: tuple[int, int] | None, where: str) -> av.VideoFrame:
    """Convert a decoded frame of any source to rgb24, scaled to (width, height) in pixels if given.

    Unscaled, 8-bit yuv420p of even size is converted as the frame reader does it, bit for bit; everything else by the precise way,
    which is up to 10 dB nearer to the picture that the file was made from.
    """
    width, height = size or (frame.width, frame.height)
    scaled = (width, height) != (frame.width, frame.height)
    return reformatter.reformat(
        frame,
        width=width,
        height=height,
        format="rgb24",
        src_colorspace=source_matrix(frame, where=where),
        src_color_range=_source_range(frame),
        interpolation=_SCALING if scaled else None if _is_stored_form(frame) else _PRECISE,
        threads=1,
    )

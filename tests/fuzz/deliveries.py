"""Tiny deliveries to damage, by source. A new vendor joins with one line in `WRITERS`; what stands behind a slash only tells two apart."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from egodata.testing.drafts import moving_frames, write_source
from tests.unit.vendors.conftest import FRAMES, SIZE, LeRobotFiles, MeckaFiles
from tests.unit.vendors.test_aria import MpsFiles
from tests.unit.vendors.test_lerobot_v3 import TOTAL, V3Files
from tests.unit.vendors.vendor_files import EgoDexFiles, EvaFiles, ScaleFiles, text_clip

OLD_STORE = Path(__file__).parents[1] / "golden" / "v3" / "store"
ANNOTATIONS = "label,start_time,end_time,role\nreach,0,0.2,subtask\nplace_it,0.2,0.4,subtask\nmove,0,0.4,task\n"


@cache
def _video(frames: int = FRAMES) -> bytes:
    with TemporaryDirectory() as folder:
        return write_source(Path(folder) / "video.mp4", moving_frames(frames, (96, 60) if frames == 40 else SIZE, 3)).read_bytes()


def _old_group(root: Path, name: str) -> None:
    shutil.copytree(OLD_STORE / name, root / name)


WRITERS: dict[str, Callable[[Path], object]] = {
    "mecka": lambda root: MeckaFiles(root, annotations=ANNOTATIONS, video=_video()).write(),
    "lerobot": lambda root: LeRobotFiles(root, _video(), index=0, listed=2).write(),
    "scale": lambda root: ScaleFiles(root, texts={"Sub-goal": [text_clip(0, 20, "fold")]}, video=_video(40)).write(),
    "egodex": lambda root: EgoDexFiles(root, video=_video(40)).write(),
    "eva": lambda root: EvaFiles(root).write(),
    "lerobot/v3": lambda root: V3Files(root, _video(TOTAL)).write(),
    "aria": lambda root: MpsFiles(root).write(),
    "zarr_v3": lambda root: _old_group(root, "v31-h264.zarr"),
    "zarr_v3/jpeg": lambda root: _old_group(root, "v30-jpeg.zarr"),
}

"""A child that publishes and attaches one episode for ever; its parent kills it. Run as a script, not a test."""

import sys
from itertools import count
from pathlib import Path

from egodata.annotations import TASK, Span
from egodata.errors import ConflictError
from egodata.formats.zarr import ZarrStore, attach_annotations, publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings


def main(root: Path, episode_id: str) -> None:
    """Alternate between two drafts, each followed by two attaches; the content never repeats the one before."""
    paths = open_root(root)
    drafts = [small_draft(root.parent, frames=frames, episode_id=episode_id) for frames in (40, 60)]
    print("ready", flush=True)
    for step in count():
        publish_draft(paths, drafts[step % 2], settings=EncodeSettings(frames_per_chunk=25, gop=12, bframes=3))
        for text in ("one", f"step {step % 5}"):
            content = ZarrStore(paths).open(episode_id).digests.content
            try:
                attach_annotations(paths, episode_id, {TASK: [Span(text, 0, 5)]}, expected=content)
            except ConflictError:
                continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

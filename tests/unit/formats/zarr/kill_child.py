"""A server whose forked children publish and attach one episode for ever, until they are killed. Run as a script, not a test.

Each line on stdin, ``STEP POINT``, starts a child at that step; its pid is printed, then ``dead`` once it has been killed.
With a POINT from 0 on the child kills itself there: before and after each of the three steps that publish a version.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from egodata.annotations import TASK, Span
from egodata.formats.zarr import ZarrStore
from egodata.formats.zarr.attach import attach_annotations
from egodata.formats.zarr.publish import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings


def work(root: Path, drafts: list, start: int) -> None:
    """Alternate between two drafts, each followed by two attaches; the content never repeats the one before."""
    paths = open_root(root)
    for step in count(start):
        draft = drafts[step % 2]
        publish_draft(paths, draft, settings=EncodeSettings(frames_per_chunk=25, gop=12, bframes=3))
        for text in ("one", f"step {step % 5}"):
            content = ZarrStore(paths).open(draft.meta.episode_id).digests.content
            attach_annotations(paths, draft.meta.episode_id, {TASK: [Span(text, 0, 5)]}, expected=content)


def crash_at(point: int) -> None:
    """Make the process kill itself before (even) or after (odd) the publishing step point // 2: rename, symlink, replace."""
    seen = 0

    def wrapped(original):
        def call(source, target, *arguments, **options):
            nonlocal seen
            counted = str(source).endswith(".build") or str(source).endswith(".link") or str(target).endswith(".link")
            if counted and point == 2 * seen:
                os.kill(os.getpid(), signal.SIGKILL)
            original(source, target, *arguments, **options)
            if counted and point == 2 * seen + 1:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += counted

        return call

    for name in ("rename", "symlink", "replace"):
        setattr(os, name, wrapped(getattr(os, name)))


def main(root: Path, episode_id: str) -> None:
    """Serve until stdin ends."""
    drafts = [small_draft(root.parent, frames=frames, episode_id=episode_id) for frames in (40, 60)]
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                step, point = map(int, line.split())
                if point >= 0:
                    crash_at(point)
                work(root, drafts, step)
            finally:
                os._exit(1)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print("dead" if os.WIFSIGNALED(status) else "failed", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""`egodata preview`: look at an episode with everything known about it drawn on top."""

from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo
from egodata.errors import InputError
from egodata.formats import FORMATS, open_store
from egodata.reports.overlay import contact_sheet, write_preview
from egodata.schema.layout import open_root


def _range(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    start, colon, end = text.partition(":")
    if not colon or not (start or "0").isdecimal() or not (end or "0").isdecimal():
        raise InputError(f"--frames {text!r}: expected START:END, half-open, either may be left out")
    return int(start or 0), int(end) if end else None


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("episode_id")
@click.option("-o", "--out", type=PathWord(dir_okay=False, path_type=Path), help="Video to write. Default: EPISODE_ID.mp4, unless --sheet.")
@click.option("--sheet", type=PathWord(dir_okay=False, path_type=Path), help="Contact sheet to write as PNG.")
@click.option("--format", "stored_as", type=click.Choice(FORMATS), default="zarr", show_default=True, help="Which copy to read.")
@click.option("--camera", help="Camera to show. Default: the reference camera.")
@click.option("--frames", help="Range START:END of the video, half-open. Default: all.")
def preview(
    store: Path, episode_id: str, *, out: Path | None, sheet: Path | None, stored_as: str, camera: str | None, frames: str | None
) -> None:
    """Write EPISODE_ID of STORE as a video: hands, wrist axes, the next second of the wrists, spans, validity."""
    start, end = _range(frames)
    reader = open_store(open_root(store), stored_as).open(episode_id)
    try:
        if sheet is not None:
            data = contact_sheet(reader, camera=camera)
            sheet.parent.mkdir(parents=True, exist_ok=True)
            sheet.write_bytes(data)
            echo(f"{sheet}: contact sheet of {episode_id}")
        if out is not None or sheet is None:
            path = out or Path(f"{episode_id}.mp4")
            with ConsoleProgress() as progress:
                count = write_preview(reader, path, start=start, end=end, camera=camera, progress=progress)
            echo(f"{path}: {count} frames of {episode_id}")
    finally:
        reader.close()

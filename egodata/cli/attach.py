"""`egodata attach`: give a published episode annotations or a calibration from a file."""

from pathlib import Path

import click

from egodata.annotations import divided
from egodata.cli.console import PathWord, echo, print_table
from egodata.episode import read_spans
from egodata.formats.zarr import ZarrStore, attach_annotations, attach_calibration
from egodata.ingest.loose import loose_annotations, loose_calibration
from egodata.schema.layout import open_root, require_writable


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("episode_id")
@click.argument("file", type=PathWord(exists=True, dir_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(["annotations", "structure", "calibration"]), required=True, help="What the file holds.")
@click.option("--expected", help="Refuse unless the episode's content digest is this one.")
@click.option("--replace", is_flag=True, help="Annotations or structure: drop keys that the file does not have.")
def attach(store: Path, episode_id: str, file: Path, *, kind: str, expected: str | None, replace: bool) -> int:
    """Attach FILE to EPISODE_ID of STORE as a new version that shares the media; frozen datasets keep the old one.

    Annotations: CSV label,start_time,end_time[,role], or JSON {key: [{text, start_idx, end_idx}]}. Keys of the file replace those of the
    episode. Structure: such JSON under other keys, such as fold_segments; text may be left out. Calibration: JSON as in docs/format.md,
    or intrinsics w h fl_x fl_y cx cy [k1 k2 p1 p2]; scaled to the stored size.
    """
    paths = open_root(store)
    require_writable(paths)
    reader = ZarrStore(paths).open(episode_id)
    try:
        before = reader.digests.content
        if kind in ("annotations", "structure"):
            found, notes = loose_annotations(file, reader)
            texts, structure = divided(read_spans(reader))
            if kind == "annotations":
                texts = {**({} if replace else texts), **found}
            else:
                structure = {**({} if replace else structure), **found}
            digests = attach_annotations(paths, episode_id, texts, expected=expected or before, structure=structure)
        else:
            digests, notes = attach_calibration(paths, episode_id, loose_calibration(file, reader), expected=expected or before), ()
    finally:
        reader.close()
    if notes:
        print_table("Noted", ("severity", "code", "message"), [(n.severity.name.lower(), n.code, n.message) for n in notes])
    what = "nothing changed" if digests.content == before else f"content {before[:16]} -> {digests.content[:16]}"
    echo(f"episode {episode_id}: {kind} of {file.name}: {what}")
    return 0

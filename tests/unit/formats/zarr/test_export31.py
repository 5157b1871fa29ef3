"""A v4 episode goes back to v3.1 and comes again as the same media."""

import numpy as np
import pytest
import zarr

from egodata.cli.main import cli, run as run_command
from egodata.episode import read_all_numeric
from egodata.errors import InputError
from egodata.formats.zarr import ZarrStore, verify_episode
from egodata.formats.zarr.export31 import export_zarr31
from egodata.formats.zarr.legacy import LegacyStore
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import open_root
from tests.unit.formats.zarr.conftest import ID


def test_there_and_back(published, reader, tmp_path, capsys):
    paths, _ = published
    assert run_command(cli, ["export", "zarr31", str(paths.root), ID, str(tmp_path / "old")], program="egodata") == 0
    assert "1 episodes as v3.1" in capsys.readouterr().out
    old = LegacyStore(tmp_path / "old").open(ID)
    assert (old.meta.schema_version, old.meta.hand_frame_convention) == ("v3.1", "anat-v1")
    assert (old.frames("front_1", range(130)) == reader.frames("front_1", range(130))).all()
    raw = zarr.open_group(str(tmp_path / "old" / f"{ID}.zarr"), mode="r")
    assert (raw["left.obs_ee_pose"][10:20] == 0).all(), "missing rows are zeros again"
    assert not [key for key in raw if key.endswith("_valid")]
    report = ingest(tmp_path / "old", options=IngestOptions("zarr_v3", tmp_path / "again", workers=0))
    assert report.status == 0
    back = open_root(tmp_path / "again")
    assert verify_episode(back, ID) == []
    again = ZarrStore(back).open(ID)
    before = read_all_numeric(reader)
    for key, array in read_all_numeric(again).items():
        np.testing.assert_array_equal(array, before[key], err_msg=key)
    assert set(again.meta.numeric_keys) == set(before)
    assert [again.video_chunk("front_1", i) for i in range(3)] == [reader.video_chunk("front_1", i) for i in range(3)]
    assert again.calibration == reader.calibration
    assert {key: again.spans(key) for key in again.annotation_keys} == {key: reader.spans(key) for key in reader.annotation_keys}


def test_an_export_never_overwrites(reader, tmp_path):
    export_zarr31(reader, tmp_path)
    with pytest.raises(InputError, match=f"export .*{ID}.zarr: is there already"):
        export_zarr31(reader, tmp_path)

"""What Dagster asks for: a cheap version per recording, and one part at a time."""

import os

import pytest

from egodata.errors import EpisodeNotFoundError, InputError, NotFoundError
from egodata.formats.zarr import ZarrStore
from egodata.ingest import attach_from_raw, digests as raw_digests, discover, observe, raw_digest
from egodata.ingest.digests import FileDigests
from egodata.schema.canonical import json_digest
from egodata.vendors import RecordingRef

from .conftest import IDS


def test_observed_versions_follow_size_and_mtime(raw, bench):
    before = observe(discover(bench.raw, "mecka"))
    assert list(before) == list(IDS)
    path = raw[IDS[1]].folder / "hands.csv"
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    after = observe(discover(bench.raw, "mecka"))
    assert {identity for identity in IDS if before[identity] != after[identity]} == {IDS[1]}
    assert observe(discover(bench.raw, "mecka"), only=[IDS[0]]) == {IDS[0]: before[IDS[0]]}


@pytest.mark.parametrize("stamp_ns", [1, 2**53 - 1, 2**53, 1_750_000_000_123_456_789])
@pytest.mark.parametrize("details", [{}, {"row": "ä\n", "fps": 30}])
def test_an_observed_version_is_the_digest_of_canonical_json(tmp_path, stamp_ns, details):
    names = ['b "quoted"\t.csv', "a\u2028ä.mp4", "sub/\x7f\x01.txt"]
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * number)
        os.utime(tmp_path / name, ns=(stamp_ns, stamp_ns))
    files = {"media": tuple(tmp_path / name for name in names[:2]), "annotations": (tmp_path / names[2],)}
    ref = RecordingRef("one", "mecka", "d", "d", tmp_path, files, details=details)
    rows = [["a\u2028ä.mp4", 1, stamp_ns], ['b "quoted"\t.csv', 0, stamp_ns], ["sub/\x7f\x01.txt", 2, stamp_ns]]
    assert raw_digests.observed_version(ref) == json_digest([*rows, details])


def test_raw_digests_follow_bytes_by_part(raw, bench):
    def digests():
        return {ref.id: raw_digest(ref) for ref in discover(bench.raw, "mecka").recordings}

    raw[IDS[0]].listed = ("annotations",)
    raw[IDS[0]].write()
    before = digests()
    for path in raw[IDS[0]].folder.iterdir():
        os.utime(path)
    assert digests() == before
    raw[IDS[0]].annotations = "label,start_time,end_time\n"
    raw[IDS[0]].write()
    after = digests()[IDS[0]]
    assert {part for part in after.parts if after.parts[part] != before[IDS[0]].parts[part]} == {"annotations"}
    assert after.raw != before[IDS[0]].raw and [file.path for file in after.files] == sorted(file.path for file in after.files)


def test_attaching_a_part_twice_changes_once(raw, bench):
    bench()
    raw[IDS[0]].annotations = "label,start_time,end_time\nreach,0,0.2\n"
    raw[IDS[0]].write()
    calls = [attach_from_raw(bench.paths, bench.raw, recording=IDS[0], part="annotations", options=bench.options()) for _ in range(2)]
    assert [call.changed for call in calls] == [(IDS[0],), ()] and calls[0].contents == calls[1].contents
    assert ZarrStore(bench.paths).open(IDS[0]).annotation_keys == ("annotations_subtask",)
    same = attach_from_raw(bench.paths, bench.raw, recording=IDS[0], part="calibration", options=bench.options())
    assert same.changed == () and same.contents == calls[0].contents


def test_attaching_names_what_is_wrong(raw, bench):
    with pytest.raises(InputError, match="expected one of annotations, calibration"):
        attach_from_raw(bench.paths, bench.raw, recording=IDS[0], part="video", options=bench.options())
    with pytest.raises(NotFoundError, match="recording nobody: not in delivery"):
        attach_from_raw(bench.paths, bench.raw, recording="nobody", part="annotations", options=bench.options())
    with pytest.raises(EpisodeNotFoundError):
        attach_from_raw(bench.paths, bench.raw, recording=IDS[0], part="annotations", options=bench.options())


def test_a_file_that_recordings_share_is_read_once_until_it_changes(tmp_path, monkeypatch):
    shared, own = tmp_path / "shared.mp4", tmp_path / "own.csv"
    shared.write_bytes(b"frames")
    own.write_bytes(b"rows")
    refs = [RecordingRef(name, "v", "d", "d", tmp_path, {"media": files}) for name, files in (("a", (shared, own)), ("b", (shared,)))]
    read = []
    plain = raw_digests._file
    monkeypatch.setattr(raw_digests, "_file", lambda root, path: read.append(path) or plain(root, path))
    files = FileDigests(refs)
    assert files.shares(refs[0]) and not FileDigests(refs[:1]).shares(refs[0])
    first = [raw_digest(ref, files) for ref in refs]
    assert read == [shared, own] and first == [raw_digest(ref) for ref in refs]
    shared.write_bytes(b"frames, longer")
    assert raw_digest(refs[1], files) == raw_digest(refs[1]) != first[1]

"""Store root, configuration, findings, spans and calibration."""

import json
import os
from dataclasses import dataclass

import numpy as np
import pytest

from egodata.annotations import Span, active_texts, decode_span, encode_span, frame_at
from egodata.calibration import Calibration, CameraCalibration, calibration_attributes, calibration_from_attributes, pinhole_matrix
from egodata.config import find_config, load_config, strict_config, typed
from egodata.errors import ConfigError, InputError, NotFoundError, SchemaError
from egodata.findings import Finding, Severity, worst
from egodata.progress import tracked
from egodata.schema.layout import open_root, require_writable, write_atomic


def test_a_store_is_made_once_and_opened_again(tmp_path):
    with pytest.raises(NotFoundError, match="no store.json there. Make one with"):
        open_root(tmp_path / "s")
    with pytest.raises(NotFoundError, match=r"Make one with `egodata ingest RAW --vendor V --store '/.*/week 3'`"):
        open_root(tmp_path / "week 3")
    made = open_root(tmp_path / "s", create=True)
    before = (made.root / "store.json").read_bytes()
    assert open_root(tmp_path / "s", create=True) == made
    assert (made.root / "store.json").read_bytes() == before
    assert json.loads(before) == {
        "store_schema": 1,
        "episode_schema": "v4.0",
        "algorithms": {"digests": 1, "hand_frame": 1, "splits": 1, "statistics": 1},
    }


def test_a_store_of_an_earlier_egodata_is_read(tmp_path):
    marker = open_root(tmp_path, create=True).root / "store.json"
    for earlier in ({"store_schema": 1, "episode_schema": "v4.0"}, {"episode_schema": "v3.1"}, {"algorithms": {"digests": 0}}):
        marker.write_text(json.dumps(earlier))
        assert open_root(tmp_path).root == tmp_path


def test_a_newer_or_broken_store_is_refused(tmp_path):
    marker = open_root(tmp_path, create=True).root / "store.json"
    marker.write_text(json.dumps({"store_schema": 99}))
    with pytest.raises(InputError, match="written by schema 99, this egodata reads up to 1. Upgrade egodata."):
        open_root(tmp_path)
    for broken in (b"{", b"[]", b"5", b'{"store_schema": "1"}', b'{"algorithms": [1]}', b'{"algorithms": {"digests": "1"}}', b"\xff"):
        marker.write_bytes(broken)
        with pytest.raises(InputError, match="store.json is not JSON"):
            open_root(tmp_path)


def test_a_folder_that_cannot_be_written_is_said_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written .*Choose a folder you own"):
        open_root(tmp_path / "file" / "s", create=True)
    paths = open_root(tmp_path / "s", create=True)
    require_writable(paths)
    if os.geteuid() != 0:  # root may write anywhere
        paths.root.chmod(0o500)
        with pytest.raises(InputError, match="not writable for this user"):
            require_writable(paths)
        paths.root.chmod(0o700)


def test_write_atomic_leaves_nothing_behind_when_it_fails(tmp_path):
    write_atomic(tmp_path / "a", b"one")
    with pytest.raises(TypeError):
        write_atomic(tmp_path / "a", "text is not bytes")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"one"}


@strict_config
@dataclass(frozen=True, slots=True)
class _Example:
    name: str
    count: int = 1
    limits: tuple[int, ...] = ()
    share: float = 0.0


@strict_config
@dataclass(frozen=True, slots=True)
class _Inner:
    left: int

    def __post_init__(self) -> None:
        if self.left < 1:
            raise ConfigError(f"left: expected 1 or more, got {self.left}")


@strict_config
@dataclass(frozen=True, slots=True)
class _Outer:
    inner: _Inner


def test_configs_are_typed(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("name: a\nlimits: [1, 2]\n")
    assert load_config(find_config("anything", str(path)), _Example) == _Example("a", 1, (1, 2))
    with pytest.raises(ConfigError, match="here: count: .*, got 'many'; colour: .*, got 1"):
        typed(_Example, {"name": "a", "colour": 1, "count": "many"}, where="here")
    with pytest.raises(ConfigError, match="here: share: .*finite number, got nan"):
        typed(_Example, {"name": "a", "share": float("nan")}, where="here")
    with pytest.raises(ConfigError, match="^here: inner: left: expected 1 or more, got 0$"):
        typed(_Outer, {"inner": {"left": 0}}, where="here")
    for broken in (b"name: [", b"\xff\xfe\x00", b"[" * 100_000):
        path.write_bytes(broken)
        with pytest.raises(ConfigError, match="not YAML"):
            load_config(path, _Example)
    with pytest.raises(NotFoundError, match="no such file"):
        find_config("recipes", str(tmp_path / "none.yaml"))
    with pytest.raises(NotFoundError, match="did you mean human_wrist6d"):
        find_config("recipes", "human_wrist_6d")


def test_a_finding_is_known_by_what_it_is_about():
    finding = Finding("video-truncated", Severity.ERROR, "ep", "text", stream="video", frames=(3, 9), content="c")
    same = Finding("video-truncated", Severity.INFO, "ep", "other words", stream="video", frames=(3, 9), content="c", got="x")
    assert finding.id == same.id == finding.to_json()["id"] and len(finding.id) == 12
    assert finding.id != Finding("video-truncated", Severity.ERROR, "ep", "text", stream="video", frames=(3, 8), content="c").id
    assert worst([same, finding]) is Severity.ERROR
    assert worst([]) is None


@pytest.mark.parametrize("text", ["", "  ", "é 🧊 مكعب", "a" * 10_000, 'quote " and \\ and \n', "a | b"])
def test_spans_are_stored_exactly(text):
    span = Span(text, 3, 9)
    assert decode_span(encode_span(span)) == span


@pytest.mark.parametrize(("start", "end"), [(3, 3), (5, 4), (-1, 2)])
def test_empty_and_reversed_spans_are_refused(start, end):
    with pytest.raises(SchemaError, match="expected 0 <= start < end"):
        Span("x", start, end)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"text":"a"}', b'{"text":"a","start_idx":2,"end_idx":2}'])
def test_elements_that_are_no_spans_are_refused(data):
    with pytest.raises(SchemaError):
        decode_span(data)


def test_spans_hold_their_start_and_not_their_end():
    spans = (Span("a", 0, 3), Span("b", 2, 4))
    assert [active_texts(spans, frame) for frame in range(5)] == [("a",), ("a",), ("a", "b"), ("b",), ()]
    assert active_texts(None, 0) == active_texts((), 0) == ()


def test_times_become_the_first_frame_at_or_after_them():
    stamps = np.array([100, 133, 166, 200], np.int64)
    assert [frame_at(stamps, time) for time in (0, 100, 101, 133, 200, 201)] == [0, 0, 1, 1, 3, 4]


def test_calibration_survives_its_attributes_and_scales():
    camera = CameraCalibration(pinhole_matrix(750, 751, 959.5, 539.5), "OPENCV", (0.1, 0.2, 0.3, 0.4), (1920, 1080))
    half = camera.scaled(640, 360)
    assert half.resolution == (640, 360)
    assert half.k == pytest.approx(np.array(pinhole_matrix(250, 751 / 3, 319.5, 179.5)))
    calibration = Calibration("head", {"front_1": half})
    attributes = calibration_attributes(calibration)
    assert calibration_from_attributes(json.loads(json.dumps(attributes))) == calibration
    assert attributes["intrinsics"]["front_1"] == attributes["calibration"]["cameras"]["front_1"]["K"]
    assert calibration_attributes(None) == {}
    assert calibration_from_attributes({}) is None


def test_malformed_calibration_is_refused():
    with pytest.raises(SchemaError, match="camera model 'FISH': expected one of PINHOLE"):
        CameraCalibration(pinhole_matrix(1, 1, 0, 0), "FISH", (), (2, 2))
    with pytest.raises(SchemaError, match="expected 3x4"):
        CameraCalibration(((1.0, 0.0), (0.0, 1.0)), "PINHOLE", (), (2, 2))
    with pytest.raises(SchemaError, match="attribute calibration"):
        calibration_from_attributes({"calibration": {"cameras": {"front_1": {}}}})


def test_progress_reports_each_item_once_it_is_done():
    told = []
    items = tracked([5, 6], label="work", progress=lambda *event: told.append(event))
    assert next(items) == 5
    assert told == [("work", 0, 2)]
    assert list(items) == [6]
    assert told == [("work", 0, 2), ("work", 1, 2), ("work", 2, 2)]

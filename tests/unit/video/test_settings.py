import json

import pytest

from egodata.errors import ConfigError
from egodata.video import COMPACT, DEFAULT_SETTINGS, SWIFT, EncodeSettings


def test_the_default_is_compact_and_every_setting_is_recorded():
    assert DEFAULT_SETTINGS is COMPACT
    recorded = json.loads(json.dumps(COMPACT.to_json()))
    assert EncodeSettings(**recorded) == COMPACT
    assert (COMPACT.gop, COMPACT.bframes, COMPACT.threads, COMPACT.frames_per_chunk) == (24, 4, 1, 300)
    assert (SWIFT.gop, SWIFT.bframes) == (9, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"codec": "av1"}, "codec: expected h264, got 'av1'"),
        ({"pix_fmt": "yuv444p"}, "pix_fmt: expected yuv420p"),
        ({"crf": 0}, "crf: expected 1 to 40, got 0"),
        ({"gop": 4, "bframes": 4}, "bframes: expected 0 to 15 and below gop (4), got 4"),
        ({"threads": 0}, "threads: expected 1 to 64"),
        ({"frames_per_chunk": 0}, "frames_per_chunk: expected 1 to 3000"),
        ({"preset": "fastest"}, "preset: expected one of ultrafast"),
        ({"tune": "grain"}, "tune: expected fastdecode or empty"),
    ],
)
def test_settings_that_break_the_format_are_refused(change, words):
    with pytest.raises(ConfigError) as caught:
        EncodeSettings(**change)
    assert words in str(caught.value)

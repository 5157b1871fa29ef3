import hashlib
import json
import random
import re
from dataclasses import replace

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings, strategies as st

from egodata.catalog.freeze import build_manifest
from egodata.catalog.manifest import manifest_bytes, manifest_from_bytes
from egodata.errors import GateError, NotFoundError


@pytest.fixture
def manifest(rows, rule):
    return build_manifest(rows, rule(pins={"unseen_operator": ("ep08",)}), provenance={"created": "now", "lance_versions": {"episodes": 3}})


def test_the_file_reads_back(manifest):
    assert manifest_from_bytes(manifest_bytes(manifest), where="x") == manifest
    assert manifest.ref == "set@v1"
    assert manifest.lance_versions == {"episodes": 3}
    assert replace(manifest, provenance={}).lance_versions is None


def test_the_digest_is_that_of_the_identity_in_canonical_json(manifest):
    value = json.loads(manifest_bytes(manifest))
    assert manifest_bytes(manifest) == rfc8785.dumps(value)
    assert hashlib.sha256(rfc8785.dumps(value["identity"])).hexdigest() == value["digest"] == manifest.digest
    assert set(value["identity"]) == {"schema", "rule", "seed", "heads", "operators", "sessions", "held_out_operators", "pins"}


def test_identity_records_what_the_rule_used(rows, rule, row):
    clip = row("clip", recording_id="tape", operator="mecka/b", session="monday", n_frames=77)
    manifest = build_manifest([*rows, clip], rule(), provenance={})
    found = next(e for e in manifest.head("unseen_operator") if e.episode_id == "clip")
    assert (found.frames, found.recording, found.operator, found.session) == (77, "tape", "mecka/b", "monday")
    assert (found.content, found.media) == (clip.content, clip.media)
    again = manifest_from_bytes(manifest_bytes(manifest), where="x")
    assert again.head("unseen_operator") == manifest.head("unseen_operator")
    with pytest.raises(NotFoundError, match=r"dataset set@v1: no head 'unseen_operators'; did you mean unseen_operator\?"):
        manifest.head("unseen_operators")


def test_name_version_and_provenance_are_outside_the_digest(rows, rule, manifest):
    other = build_manifest(rows, rule(name="b", version="v7", pins={"unseen_operator": ("ep08",)}), provenance={"created": "later"})
    assert other.digest == manifest.digest


@pytest.mark.parametrize(
    "change",
    [
        {"n_frames": 99},
        {"content": "0" * 64},
        {"media": "0" * 64},
        {"operator": "mecka/c"},
        {"session": "monday"},
        {"recording_id": "tape"},
    ],
)
def test_every_recorded_field_of_an_episode_is_inside(rows, rule, change):
    before = build_manifest(rows, rule(), provenance={}).digest
    assert build_manifest([replace(rows[0], **change), *rows[1:]], rule(), provenance={}).digest != before


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32))
def test_listing_order_does_not_change_the_digest(rows, rule, seed):
    shuffled = rows.copy()
    random.Random(seed).shuffle(shuffled)
    assert build_manifest(shuffled, rule(), provenance={}) == build_manifest(rows, rule(), provenance={})


def test_a_changed_file_is_refused(manifest):
    data = manifest_bytes(manifest)
    with pytest.raises(GateError, match="store: changed since it was frozen: expected digest"):
        manifest_from_bytes(data.replace(b'"seed":42', b'"seed":43'), where="store")
    with pytest.raises(GateError, match="store: not a manifest"):
        manifest_from_bytes(data[:100], where="store")
    with pytest.raises(GateError, match="store: not a manifest"):
        manifest_from_bytes(b"[]", where="store")
    with pytest.raises(GateError, match=re.escape("store: manifest schema 2, this egodata reads 1")):
        manifest_from_bytes(data.replace(b'"schema":1', b'"schema":2'), where="store")


def test_hundred_thousand_episodes_stay_under_20_mb(row, rule):
    rows = [row(f"{i:024x}", operator=f"mecka/{i % 300:024x}", session=f"{i % 9000:024x}/2025-01-01") for i in range(20_000)]
    size = len(manifest_bytes(build_manifest(rows, rule(held_out_operators=(f"mecka/{7:024x}",)), provenance={})))
    assert size * 5 < 20e6

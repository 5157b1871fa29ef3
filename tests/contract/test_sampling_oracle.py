"""Samples read from real stores of both formats against the slow restatement: numbers, masks, texts, and images by the number drawn in."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from egodata.annotations import SUBTASK, Span
from egodata.catalog.manifest import HeadEpisode
from egodata.formats import open_store
from egodata.formats.lance import build_lance
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.formats.zarr.chunks import Shard
from egodata.sampling import HeadSource, SpanSelection, load_recipe
from egodata.sampling.requests import read_windows
from egodata.schema.layout import StorePaths
from egodata.testing.memory import ramp_eva, ramp_hands, ramp_joints
from egodata.testing.ramps import ramp_draft, read_number
from egodata.video import SWIFT, reader as video_reader
from tests.unit.sampling.slow import Slow

TOTAL = 160
BORDERS = [0, 1, 3, 60, 79, 80, 130, 157, 159]
RATES = (10, 20, 25, 30)
SHIPPED = ("human_wrist6d", "human_keypoints144", "eva_ee20", "joints")
FORMATS = ("zarr", "lance")
MAKERS = {"human": ramp_hands, "robot": ramp_eva, "joints": ramp_joints}
TEXTS = {
    SUBTASK: [Span("fold", 50, 90), Span("press", 70, 100)],
    "fold_segments": [Span("", 40, 70), Span("a secret", 60, 100), Span("", 120, 160)],
}


def made(body, fps):
    episode = MAKERS[body](f"{body}{fps:02}", frames=TOTAL, fps=Fraction(fps))
    episode.annotations = TEXTS
    return episode


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One episode per body and frame rate, in both formats."""
    paths = StorePaths(tmp_path_factory.mktemp("oracle") / "store")
    for fps in RATES:
        for body in MAKERS:
            publish_draft(paths, ramp_draft(made(body, fps)), settings=SWIFT)
    build_lance(paths)
    return paths


def opened(paths, recipe, fps, format):
    episode_id = f"{recipe.action_layout.body}{fps:02}"
    content = ZarrStore(paths).open(episode_id).digests.content
    head = [HeadEpisode(episode_id, TOTAL, content)]
    return HeadSource(head, lambda: open_store(paths, format), recipe=recipe)


def recipe_of(name, fps):
    recipe = replace(load_recipe(name), span_cutoff="fold_segments")
    return replace(recipe, image_history=replace(recipe.image_history, count=3, before_start="first" if fps == 20 else "grid"))


@cache
def restated(name, fps):
    """What samples at the borders hold: action, recorded steps, proprio, steps inside, images; worked out once for both formats."""
    recipe = recipe_of(name, fps)
    spans = {key: [(span.start, span.end) for span in found] for key, found in TEXTS.items()}
    slow = Slow(recipe, made(recipe.action_layout.body, fps).arrays, fps=fps, spans=spans)
    return [(*slow.action(start), *slow.proprio(start), slow.images(start)) for start in BORDERS]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("name", SHIPPED)
def test_samples_equal_the_slow_restatement(store, name, fps, format):
    recipe = recipe_of(name, fps)
    source = opened(store, recipe, fps, format)
    assert (len(source), dict(source.excluded)) == (TOTAL, {})
    for sample, start, (action, real, proprio, inside, wanted) in zip(source.samples(BORDERS), BORDERS, restated(name, fps), strict=True):
        np.testing.assert_allclose(sample.action, action, atol=5e-5, rtol=1e-6)
        assert (sample.action_mask == real[:, None]).all()
        np.testing.assert_allclose(sample.proprio, proprio, atol=5e-5, rtol=1e-6)
        assert sample.proprio_mask.tolist() == inside.tolist()
        assert sample.arm_valid.all()
        for at, camera in enumerate(sorted(recipe.cameras)):
            assert [read_number(image) for image in sample.images[camera]] == [(frame, at) for frame, _ in wanted]
            assert sample.image_mask[camera].tolist() == [there for _, there in wanted]
        texts = [span.text for span in TEXTS[SUBTASK] if span.start <= start < span.end]
        assert (sample.prompts, sample.prompt, sample.fps, sample.frame) == (tuple(texts), (texts or [""])[0], fps, start)
    source.close()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("selection", "inside"),
    [
        (SpanSelection("fold_segments"), [*range(40, 100), *range(120, 160)]),
        (SpanSelection("fold_segments", rule="index", indices=(0, -1, 7)), [*range(40, 70), *range(120, 160)]),
        (SpanSelection("fold_segments", rule="longest"), range(60, 100)),
        (SpanSelection("fold_segments", rule="last"), range(120, 160)),
        (SpanSelection("fold_segments", rule="first", min_frames=35), range(60, 100)),
        (SpanSelection("fold_segments", min_frames=41), []),
        (SpanSelection("no_such_key", absent="leave_out"), []),
    ],
)
def test_windows_start_in_the_chosen_spans_only_and_their_text_is_nowhere(store, format, selection, inside):
    recipe = replace(load_recipe("joints"), span_selection=selection, cameras=())
    source = opened(store, recipe, 30, format)
    assert source.index.frames.tolist() == list(inside)
    left_out = TOTAL - len(inside)
    reason = "no_span_key" if selection.key == "no_such_key" else "outside_selected_spans"
    assert dict(source.excluded) == {reason: left_out}
    samples = source.samples(range(0, len(source), 10)) if len(source) else []
    assert {text for sample in samples for text in sample.prompts} <= {"fold", "press"}
    source.close()


def test_both_formats_hold_the_same_structural_spans_apart_from_texts(store):
    for format in FORMATS:
        reader = open_store(store, format).open("human30")
        assert (reader.annotation_keys, reader.structure_keys) == ((SUBTASK,), ("fold_segments",))
        assert reader.spans("fold_segments") == tuple(TEXTS["fold_segments"])
        reader.close()


@pytest.mark.parametrize(
    ("windows", "rows", "chunks"),
    [
        ([(57, 61), (60, 90)], 33, 1),
        ([(57, 61), (60, 160)], 103, 2),
        ([(0, 1), (150, 151)], 151, 2),
        ([(159, 160), (149, 150), (154, 155)], 11, 1),
    ],
)
def test_windows_read_the_union_of_their_rows_and_its_chunks_once(store, monkeypatch, windows, rows, chunks):
    """Counted where zarr chunks are read; neighbours merge, since no untouched chunk lies between them."""
    reader = ZarrStore(store).open("joints30")
    seen, asked = [], []
    chunk, whole = Shard._chunk, Shard.rows
    monkeypatch.setattr(Shard, "_chunk", lambda self, file, number: seen.append(number) or chunk(self, file, number))
    monkeypatch.setattr(Shard, "rows", lambda self, start, end: asked.append(end - start) or whole(self, start, end))
    found = read_windows(reader, {"cmd_joints": windows})["cmd_joints"]
    for (start, end), part in zip(windows, found, strict=True):
        np.testing.assert_array_equal(part, ramp_joints("j", frames=TOTAL).arrays["cmd_joints"][start:end])
    assert (sum(asked), len(seen), len(set(seen))) == (rows, chunks, chunks)


@pytest.mark.parametrize("format", FORMATS)
def test_a_far_pair_of_frames_decodes_two_chains_and_not_the_gap(store, monkeypatch, format):
    recipe = replace(load_recipe("joints"), span_cutoff=None)
    recipe = replace(recipe, image_history=replace(recipe.image_history, count=2, gap_s=4.0))
    source = opened(store, recipe, 30, format)
    needed, plan = [], video_reader.packets_needed
    monkeypatch.setattr(
        video_reader, "packets_needed", lambda index, wanted: needed.append((len(wanted), len(plan(index, wanted)))) or plan(index, wanted)
    )
    sample = source.sample(150)
    assert [read_number(image)[0] for image in sample.images["front_1"]] == [30, 150]
    ((frames, packets),) = needed
    assert frames == 2
    assert packets <= 2 * -(-SWIFT.gop // (SWIFT.bframes + 1)) + 2  # the reference frames of two GOPs, and the frames themselves
    source.close()

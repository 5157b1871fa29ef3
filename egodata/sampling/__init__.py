"""Samples: recipes, windows, coordinate frames, prompts and order, written once above `EpisodeReader`."""

from egodata.sampling.evaluation import EvaluationHead, PinClip, evaluation_head, pin_clips
from egodata.sampling.index import HeadIndex
from egodata.sampling.mixture import Mixture, MixturePart
from egodata.sampling.order import auto_per_episode, epoch_order, even_stride, sample_digest, stream_digests
from egodata.sampling.plans import BlockOrder, Share
from egodata.sampling.recipe import ActionSpec, ImageHistory, Layout, ProprioSpec, Recipe, SpanSelection, bind, load_recipe
from egodata.sampling.seeds import derive_seed
from egodata.sampling.source import HeadSource
from egodata.sampling.tracks import episode_windows
from egodata.sampling.transforms import ArmParts, Poses, actions_to_parts, actions_to_poses
from egodata.sampling.types import EpisodeWindows, Normaliser, Part, Sample
from egodata.sampling.windows import cutoff_ends

__all__ = [
    "ActionSpec",
    "ArmParts",
    "BlockOrder",
    "EpisodeWindows",
    "EvaluationHead",
    "HeadIndex",
    "HeadSource",
    "ImageHistory",
    "Layout",
    "Mixture",
    "MixturePart",
    "Normaliser",
    "Part",
    "PinClip",
    "Poses",
    "ProprioSpec",
    "Recipe",
    "Sample",
    "Share",
    "SpanSelection",
    "actions_to_parts",
    "actions_to_poses",
    "auto_per_episode",
    "bind",
    "cutoff_ends",
    "derive_seed",
    "epoch_order",
    "episode_windows",
    "evaluation_head",
    "even_stride",
    "load_recipe",
    "pin_clips",
    "sample_digest",
    "stream_digests",
]

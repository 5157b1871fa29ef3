"""Samples: recipes, windows, coordinate frames, prompts and order, written once above `EpisodeReader`."""

from egodata.sampling.recipe import ActionSpec, ImageHistory, Layout, ProprioSpec, Recipe, bind, load_recipe
from egodata.sampling.tracks import episode_windows
from egodata.sampling.transforms import actions_to_poses
from egodata.sampling.types import EpisodeWindows, Normaliser, Sample
from egodata.sampling.windows import cutoff_ends

__all__ = [
    "ActionSpec",
    "EpisodeWindows",
    "ImageHistory",
    "Layout",
    "Normaliser",
    "ProprioSpec",
    "Recipe",
    "Sample",
    "actions_to_poses",
    "bind",
    "cutoff_ends",
    "episode_windows",
    "load_recipe",
]

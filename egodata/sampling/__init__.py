"""Samples: recipes, windows, coordinate frames, prompts and order, written once above `EpisodeReader`."""

from egodata.sampling.recipe import ActionSpec, ImageHistory, Layout, ProprioSpec, Recipe, bind, load_recipe
from egodata.sampling.types import EpisodeWindows, Normaliser, Sample

__all__ = [
    "ActionSpec",
    "EpisodeWindows",
    "ImageHistory",
    "Layout",
    "Normaliser",
    "ProprioSpec",
    "Recipe",
    "Sample",
    "bind",
    "load_recipe",
]

"""Norm statistics: exact, of the training head only, keyed by content; and the normalisers made of them."""

from egodata.stats.compute import feature_stats, norm_stats, stats_key, train_digest
from egodata.stats.norm import FeatureStats, FlatChannel, NormStats
from egodata.stats.normalise import AffineNormaliser, Mode

__all__ = [
    "AffineNormaliser",
    "FeatureStats",
    "FlatChannel",
    "Mode",
    "NormStats",
    "feature_stats",
    "norm_stats",
    "stats_key",
    "train_digest",
]

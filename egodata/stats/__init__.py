"""Norm statistics: exact, of the training head only, keyed by content; and the normalisers made of them."""

from egodata.stats.compute import feature_stats, norm_stats, open_rows, stats_key, train_digest
from egodata.stats.norm import FeatureStats, FlatChannel, NormStats
from egodata.stats.normalise import AffineNormaliser, Mode
from egodata.stats.pooled import pooled_stats, pooled_train_digest
from egodata.stats.report import StatsReport, stats_report

__all__ = [
    "AffineNormaliser",
    "FeatureStats",
    "FlatChannel",
    "Mode",
    "NormStats",
    "StatsReport",
    "feature_stats",
    "norm_stats",
    "open_rows",
    "pooled_stats",
    "pooled_train_digest",
    "stats_key",
    "stats_report",
    "train_digest",
]

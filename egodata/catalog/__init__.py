"""Datasets: rules over the catalog, frozen into manifests that never change."""

from egodata.catalog.datasets import ManifestDiff, diff_manifests, list_datasets, load_dataset
from egodata.catalog.freeze import Frozen, build_manifest, freeze
from egodata.catalog.gates import check_gates
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.catalog.presence import check_present
from egodata.catalog.rows import CatalogRow
from egodata.catalog.rules import DatasetRule, load_rule
from egodata.catalog.together import check_together, trained_on

__all__ = [
    "CatalogRow",
    "DatasetRule",
    "Frozen",
    "HeadEpisode",
    "Manifest",
    "ManifestDiff",
    "build_manifest",
    "check_gates",
    "check_present",
    "check_together",
    "diff_manifests",
    "freeze",
    "list_datasets",
    "load_dataset",
    "load_rule",
    "trained_on",
]

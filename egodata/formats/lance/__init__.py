"""The Lance copy of a store: four tables, one commit point. The only user of lance, beside the catalog and the parity table."""

from egodata.formats.lance.build import LanceBuild, build_lance, stable_storage_version
from egodata.formats.lance.reader import LanceEpisode
from egodata.formats.lance.store import LanceStore
from egodata.formats.lance.tables import committed_versions, read_episodes, table_versions, video_kind
from egodata.formats.lance.tags import dataset_tag, drop_tag, tag_dataset, tagged_versions
from egodata.formats.lance.upkeep import Cleaned, Compacted, cleanup_lance, compact_lance

__all__ = [
    "Cleaned",
    "Compacted",
    "LanceBuild",
    "LanceEpisode",
    "LanceStore",
    "build_lance",
    "cleanup_lance",
    "committed_versions",
    "compact_lance",
    "dataset_tag",
    "drop_tag",
    "read_episodes",
    "stable_storage_version",
    "table_versions",
    "tag_dataset",
    "tagged_versions",
    "video_kind",
]

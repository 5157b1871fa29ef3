"""How the versions of a dataset follow each other: each new one names its parent and how it differs from it."""

from typing import Any

from egodata.catalog.datasets import diff_manifests
from egodata.catalog.manifest import Manifest, manifest_from_bytes
from egodata.errors import GateError
from egodata.schema.layout import StorePaths

SHOWN = 20


def parent_note(paths: StorePaths, manifest: Manifest) -> dict[str, Any]:
    """Return what a new version's provenance says about the one that it follows; empty for the first version.

    The parent is the version of that name that no other one names as its parent; of several, the one frozen last, then the one whose
    name sorts last. An unreadable manifest is passed over: it cannot be compared with.

    Args:
        paths: The store.
        manifest: About to be written.
    """
    others = _others(paths, manifest)
    named = {str(found.provenance.get("parent", {}).get("version")) for found in others}
    leaves = [found for found in others if found.version not in named] or others
    if not leaves:
        return {}
    parent = max(leaves, key=lambda found: (str(found.provenance.get("created", "")), found.version.encode()))
    diff = diff_manifests(parent, manifest)
    counts = {"added": len(diff.added), "removed": len(diff.removed), "moved": len(diff.moved), "changed": len(diff.changed)}
    return {
        "parent": {
            "version": parent.version,
            "digest": parent.digest,
            "difference": {**counts, "settings": len(diff.settings), "lines": diff.lines(limit=SHOWN)},
        }
    }


def _others(paths: StorePaths, manifest: Manifest) -> list[Manifest]:
    folder = paths.manifest(manifest.name, manifest.version).parent.parent
    found = []
    for path in sorted(folder.glob("*/manifest.json")):
        try:
            found.append(manifest_from_bytes(path.read_bytes(), where=f"dataset {manifest.name}@{path.parent.name}"))
        except GateError:
            continue
    return found

"""The converter of an earlier egodata, for tests of what comes after an upgrade."""

from dataclasses import replace

from egodata.vendors.mecka import VENDOR

CONVERTER = "egodata.vendors.mecka.VENDOR"
AS_IT_WAS = "as it was"


def _convert(ref, config):
    """Describe the task in other words, so that contents are others too."""
    drafts = VENDOR.convert(ref, config)
    old = [replace(draft, meta=replace(draft.meta, task_description=AS_IT_WAS)) for draft in drafts.episodes]
    return replace(drafts, episodes=tuple(old))


def earlier(version=1):
    return replace(VENDOR, version=version, convert=_convert)

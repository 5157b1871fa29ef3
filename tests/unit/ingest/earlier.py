"""The converter of an earlier egodata, for tests of what comes after an upgrade."""

from dataclasses import dataclass, replace

from egodata.vendors.mecka.vendor import Mecka

CONVERTER = "egodata.vendors.mecka.VENDOR"
AS_IT_WAS = "as it was"


@dataclass(frozen=True, slots=True)
class Earlier(Mecka):
    """It described the task in other words, so that its contents are others too."""

    version: int = 1

    def read(self, ref, options):
        drafts = Mecka.read(self, ref, options)
        old = [replace(draft, meta=replace(draft.meta, task_description=AS_IT_WAS)) for draft in drafts.episodes]
        return replace(drafts, episodes=tuple(old))

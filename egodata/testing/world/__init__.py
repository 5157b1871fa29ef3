"""A synthetic world: simulated operators sort cubes in front of a head camera, delivered as a vendor would, truth kept."""

from egodata.testing.world.delivery import write_delivery
from egodata.testing.world.faults import FAULTS
from egodata.testing.world.options import DeliverySummary, WorldOptions
from egodata.testing.world.truth import read_truth
from egodata.testing.world.writers import WRITERS

__all__ = ["FAULTS", "WRITERS", "DeliverySummary", "WorldOptions", "read_truth", "write_delivery"]

"""A synthetic world: simulated operators sort cubes in front of a head camera, delivered as a vendor would, truth kept."""

from egodata.testing.world.delivery import write_delivery
from egodata.testing.world.faults import FAULTS
from egodata.testing.world.options import DeliverySummary, WorldOptions
from egodata.testing.world.truth import read_truth

__all__ = ["FAULTS", "DeliverySummary", "WorldOptions", "read_truth", "write_delivery"]

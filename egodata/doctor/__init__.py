"""Doctor: every check on a delivery before ingest, or on a store, and a short list of what a person should look at."""

from egodata.doctor.delivery import examine_delivery
from egodata.doctor.report import DoctorReport, Watch
from egodata.doctor.stored import examine_store

__all__ = ["DoctorReport", "Watch", "examine_delivery", "examine_store"]

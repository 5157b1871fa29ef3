"""Ingest: a delivery becomes published episodes; what cannot is set aside with its reasons, and nothing is done twice."""

from egodata.ingest.attach import AttachReport, attach_from_raw, attach_recording
from egodata.ingest.digests import RawDigests, raw_digest
from egodata.ingest.observe import discover, observe, observe_refused
from egodata.ingest.options import IngestOptions
from egodata.ingest.report import IngestReport, Outcome
from egodata.ingest.run import Spread, ingest

__all__ = [
    "AttachReport",
    "IngestOptions",
    "IngestReport",
    "Outcome",
    "RawDigests",
    "Spread",
    "attach_from_raw",
    "attach_recording",
    "discover",
    "ingest",
    "observe",
    "observe_refused",
    "raw_digest",
]

"""Parity: proof that the zarr episodes and their Lance copy say the same."""

from egodata.parity.check import check_parity
from egodata.parity.report import EXACT, LEVELS, Difference, LevelReport, Outcome, ParityConfig, ParityReport
from egodata.parity.table import latest, read_rows, unproven

__all__ = [
    "EXACT",
    "LEVELS",
    "Difference",
    "LevelReport",
    "Outcome",
    "ParityReport",
    "ParityConfig",
    "check_parity",
    "latest",
    "read_rows",
    "unproven",
]

"""Parity: proof that the zarr episodes and their Lance copy say the same."""

from egodata.parity.check import check_parity, report_file
from egodata.parity.choose import Choice, choose_episodes
from egodata.parity.report import EXACT, LEVELS, Difference, LevelReport, Likeness, Outcome, ParityConfig, ParityReport
from egodata.parity.table import latest, proves, read_rows, unproven

__all__ = [
    "EXACT",
    "LEVELS",
    "Choice",
    "Likeness",
    "Difference",
    "LevelReport",
    "Outcome",
    "ParityReport",
    "ParityConfig",
    "check_parity",
    "choose_episodes",
    "report_file",
    "latest",
    "proves",
    "read_rows",
    "unproven",
]

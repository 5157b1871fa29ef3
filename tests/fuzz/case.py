"""One case: a delivery damaged by chance, ingested, and what must hold afterwards."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from egodata.errors import EgodataError
from egodata.findings import Severity
from egodata.formats.zarr import ZarrStore, verify_episode
from egodata.ingest import IngestOptions, ingest
from egodata.reports.validate import validate_episode
from egodata.schema.layout import StorePaths
from egodata.video import EncodeSettings
from tests.fuzz.damage import damage
from tests.fuzz.deliveries import WRITERS

FAST = EncodeSettings(profile="test", crf=30, preset="ultrafast", tune="", gop=12, bframes=0)
REFUSED, BUILT, WITH_FINDINGS, SET_ASIDE, ABSENT = "refused", "built", "built with findings", "set aside", "absent"
CRASHES = ("internal-error", "worker-died", "worker-stopped")


@dataclass(frozen=True, slots=True)
class Case:
    """What became of a damaged delivery.

    Attributes:
        vendor: Whose.
        seed: Gives the same damage again.
        damage: How it was damaged.
        endings: Per recording; `REFUSED` alone where the delivery as a whole was refused with a clear error.
        problems: What must not be; empty if all is well.
        odd: Errors that `egodata validate` sees in what was built.
    """

    vendor: str
    seed: int
    damage: str
    endings: tuple[str, ...]
    problems: tuple[str, ...]
    odd: tuple[str, ...] = ()


def run_case(vendor: str, seed: int, folder: Path) -> Case:
    """Write, damage and ingest a delivery in a fresh folder, which is removed afterwards."""
    raw, paths = folder / "raw", StorePaths(folder / "store")
    try:
        WRITERS[vendor](raw)
        told = damage(raw, random.Random(f"{vendor}-{seed}"))
        source = vendor.partition("/")[0]
        options = IngestOptions(
            source, paths.root, workers=0, settings=FAST, dataset="fuzz", declare="anat-v1" if source == "zarr_v3" else None
        )
        try:
            report = ingest(raw, options=options)
        except EgodataError as error:
            left = [f"{len(ZarrStore(paths).episode_ids())} episodes of a refused delivery"] if ZarrStore(paths).episode_ids() else []
            long = [f"a refusal of {len(str(error))} characters"] if len(str(error)) > 1200 else []
            return Case(vendor, seed, told, (REFUSED,), tuple(left + long))
        except Exception as error:  # noqa: BLE001  that is what is looked for
            return Case(vendor, seed, told, (), (f"ingest raised {type(error).__name__}: {error}",))
        problems = [f"{finding.code}: {finding.message}" for finding in report.findings if finding.code in CRASHES] + _store_problems(
            paths, {key for outcome in report.outcomes for key in outcome.episodes}
        )
        if report.inputs != len(report.built) + len(report.set_aside) + len(report.skipped) + len(report.absent):
            problems.append("inputs are not built + set aside + skipped + absent")
        endings = [_ending(outcome.status, bool(outcome.findings)) for outcome in report.outcomes] + [ABSENT] * len(report.absent)
        return Case(vendor, seed, told, tuple(endings), tuple(problems), _odd(paths))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ending(status: str, noted: bool) -> str:
    if status == "set_aside":
        return SET_ASIDE
    return WITH_FINDINGS if noted else BUILT


def _store_problems(paths: StorePaths, reported: set[str]) -> list[str]:
    """Say what is wrong in the store: episodes that nobody reported, files that do not verify, leftovers."""
    there = set(ZarrStore(paths).episode_ids())
    problems = [f"episodes {sorted(there ^ reported)} are in the store or in the report only"] if there != reported else []
    for one in sorted(there):
        problems += [f"verify {one}: {finding.message}" for finding in verify_episode(paths, one)]
    leftovers = [path for name in (".build", ".removed") for path in paths.zarr.glob(f".v/*/{name}")] + list(paths.root.rglob("*.tmp"))
    return problems + [f"left over: {path.relative_to(paths.root)}" for path in leftovers]


def _odd(paths: StorePaths) -> tuple[str, ...]:
    found = []
    for one in ZarrStore(paths).episode_ids():
        reader = ZarrStore(paths).open(one)
        found += [f"{finding.code}: {finding.message}" for finding in validate_episode(reader) if finding.severity is Severity.ERROR]
        reader.close()
    return tuple(found)

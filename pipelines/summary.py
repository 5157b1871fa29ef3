"""The closing table of a quickstart."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egodata.catalog import Manifest
from egodata.cli.console import echo, print_table
from egodata.names import shell_word
from egodata.parity import LEVELS, latest
from egodata.sampling import load_recipe
from egodata.schema.layout import StorePaths
from egodata.stats import norm_stats
from pipelines.deliveries import Delivery
from pipelines.plan import Plan


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a quickstart came to.

    Attributes:
        paths: The store.
        manifest: The frozen dataset.
        built: Recordings of the delivery that are episodes.
        set_aside: Reason by recording.
        absent: How many recordings the delivery lists but does not hold.
        stats_key: Of the norm statistics.
        parity: Newest verdict per level.
        results: Training result by format.
        experiment: What was trained.
    """

    paths: StorePaths
    manifest: Manifest
    built: int
    set_aside: Mapping[str, str]
    absent: int
    stats_key: str
    parity: Sequence[Mapping[str, Any]]
    results: Mapping[str, Mapping[str, Any]]
    experiment: str

    @property
    def losses_equal(self) -> bool:
        """Whether every loss is the same to the last bit on both formats."""
        zarr, lance = (_losses(self.results[format]) for format in ("zarr", "lance"))
        return zarr == lance

    @property
    def status(self) -> int:
        """Exit status: 1 for set-aside recordings, a failed verdict, or losses that differ."""
        return int(bool(self.set_aside) or not all(row["passed"] for row in self.parity) or not self.losses_equal)


def _losses(result: Mapping[str, Any]) -> dict[str, str]:
    return {"train": result["train_loss_hex"], **{head: found["loss_hex"] for head, found in result["heads"].items()}}


def collect(paths: StorePaths, manifest: Manifest, *, plan: Plan, delivery: Delivery, results: Mapping[str, Mapping[str, Any]]) -> Outcome:
    """Read from the store what a quickstart came to."""
    recipe = plan.recipe
    found = delivery.discover()
    set_aside = {item.ref.id: _reason([finding.to_json() for finding in item.findings]) for item in found.refused}
    for ref in found.recordings:
        record = paths.quarantine(ref.vendor, ref.delivery, ref.id)
        if record.exists():
            set_aside[ref.id] = _reason(json.loads(record.read_text())["findings"])
    stats = norm_stats(paths, manifest, recipe=load_recipe(recipe))
    verdicts = [row for row in latest(paths) if row["dataset_digest"] in ("", manifest.digest) and row["recipe"] in ("", recipe)]
    newest = {row["level"]: row for row in verdicts}
    parity = [newest[level] for level in LEVELS if level in newest]
    built = len(found.recordings) + len(found.refused) - len(set_aside)
    return Outcome(paths, manifest, built, set_aside, len(found.absent), stats.key, parity, results, plan.experiment)


def _reason(findings: Sequence[Mapping[str, Any]]) -> str:
    return next((str(item["message"]) for item in findings if item["severity"] == "error"), "see its quarantine record")


def print_outcome(outcome: Outcome, *, done: Sequence[str]) -> None:
    """Print the closing table, and what to try next."""
    manifest, paths = outcome.manifest, outcome.paths
    echo()
    if done:
        echo(f"already done before, not done again: {', '.join(done)}")
    counts = [["built", outcome.built], ["set aside", len(outcome.set_aside)], ["absent (listed, not delivered)", outcome.absent]]
    print_table("Episodes of this delivery", ["", "episodes"], counts)
    if outcome.set_aside:
        print_table("Set aside", ["recording", "reason"], [list(item) for item in outcome.set_aside.items()])
    heads = [[head, len(members), sum(item.frames for item in members)] for head, members in manifest.heads.items()]
    echo(f"dataset {manifest.ref}, digest {manifest.digest[:16]}; statistics key {outcome.stats_key[:16]}")
    print_table("Heads", ["head", "episodes", "frames"], heads)
    levels = [
        [row["level"], "passed" if row["passed"] else "FAILED", f"{row['largest_numeric'] or 0:g}", f"{row['largest_pixel'] or 0:g}"]
        for row in outcome.parity
    ]
    print_table("Parity, zarr against Lance", ["level", "verdict", "largest numeric difference", "largest pixel difference"], levels)
    zarr, lance = (_losses(outcome.results[format]) for format in ("zarr", "lance"))
    losses = [
        [
            name if name == "train" else f"validation {name}",
            f"{float.fromhex(zarr[name])!r}",
            f"{float.fromhex(lance[name])!r}",
            _same(zarr, lance, name),
        ]
        for name in zarr
    ]
    print_table("Losses after training, same seed", ["loss", "zarr", "lance", "to the last bit"], losses)
    _print_next(outcome, paths)


def _same(zarr: Mapping[str, str], lance: Mapping[str, str], name: str) -> str:
    return "equal" if zarr[name] == lance.get(name) else "DIFFERENT"


def _print_next(outcome: Outcome, paths: StorePaths) -> None:
    pin = next((ids[0] for ids in outcome.manifest.pins.values() if ids), outcome.manifest.heads["train"][0].episode_id)
    run = next(iter(outcome.results.values()))["run"]
    echo("next:")
    echo(f"  egopipe up --store {shell_word(paths.root)}          # the assets in a browser")
    echo(f"  egodata preview {shell_word(paths.root)} {shell_word(pin)} -o preview.mp4")
    echo(f"  egodata inspect {shell_word(paths.root)}")
    echo(f"  egotrain eval {shell_word(paths.runs / run)} format=lance")
    words = [f"experiment={outcome.experiment}", f"store={paths.root}", f"dataset={outcome.manifest.ref}", "run=longer"]
    echo(f"  egotrain fit {' '.join(map(shell_word, words))}   # what was trained here is a first look; this takes minutes")

"""`egopipe quickstart`: one delivery to two trained policies, as assets of a persistent instance inside the store.

Every stage first asks whether its work is already done for the very inputs there are, and then says so instead of doing it.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from egodata.catalog import DatasetRule, Manifest, load_dataset
from egodata.catalog.rows import catalog_from_lance
from egodata.catalog.rules import matches
from egodata.cli.console import ConsoleProgress, echo
from egodata.errors import NotFoundError
from egodata.schema.layout import StorePaths, open_root, require_writable
from egodata.testing.world import WorldOptions, write_delivery
from pipelines.assets.datasets import DATASET, LOADER_PARITY, NORM_STATS
from pipelines.assets.ingest import EPISODE_ANNOTATIONS, EPISODE_CALIBRATION, EPISODE_ZARR
from pipelines.assets.raw import RAW_EPISODE, raw_events, raw_news
from pipelines.assets.tables import LANCE_V2, PARITY_REPORT
from pipelines.assets.training import TRAINING_RUN, run_result
from pipelines.deliveries import Delivery, register
from pipelines.events import latest_inputs, latest_observed
from pipelines.gates import content_parity_needed, loader_parity_needed
from pipelines.instance import open_instance
from pipelines.launch import Launcher
from pipelines.partitions import DATASET_RECIPES, DATASETS, RECORDINGS, add_keys, dataset_key, recipe_key
from pipelines.plan import DEFAULTS, Plan
from pipelines.resources import STORE_VARIABLE
from pipelines.rules import keep_rule, rule_for_delivery
from pipelines.summary import collect, print_outcome

FORMATS = ("zarr", "lance")
SYNTHETIC_NAME = "sort_cubes"


@dataclass(slots=True)
class _Chain:
    """The stages of one quickstart, in order, and what each found already done."""

    plan: Plan
    paths: StorePaths
    launch: Launcher
    done: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        echo(f"[{time.monotonic() - self.began_s:4.0f} s] {text}")

    def skip(self, what: str) -> None:
        self.done.append(what)
        self.say(f"{what}: already done")

    def delivery(self) -> Delivery:
        """Return the delivery; write the synthetic one if there is none yet."""
        if self.plan.raw is not None:
            return Delivery(vendor=self.plan.vendor, raw=str(self.plan.raw))
        out = self.paths.raw / self.plan.vendor / "quickstart"
        with ConsoleProgress() as progress:
            summary = write_delivery(out, WorldOptions(episodes=self.plan.episodes), progress=progress)
        if summary.written:
            self.say(f"synthetic delivery: {len(summary.written)} episodes, {summary.frames_written} frames in {out}")
        else:
            self.skip("synthetic delivery")
        return Delivery(vendor=self.plan.vendor, raw=str(out), dataset=SYNTHETIC_NAME)

    def recordings(self, delivery: Delivery) -> dict[str, str]:
        """Register the delivery, observe it, and return the data version of each of its recordings."""
        delivery.discover()  # what is no delivery is refused before the store watches it
        register(self.paths, delivery)
        instance = self.launch.instance
        found, news = raw_news(self.paths, latest_observed(instance, RAW_EPISODE))
        add_keys(instance, RECORDINGS, keys=found)
        for event in raw_events(news):
            instance.report_runless_asset_event(event)
        mine = {key: unit.version for key, unit in found.items() if unit.delivery == delivery}
        self.say(f"recordings: {len(mine)} in the delivery, {len(news)} new or changed")
        return mine

    def episodes(self, recordings: Mapping[str, str]) -> None:
        """Materialise the three recording assets where their last input is not what is delivered now."""
        instance = self.launch.instance
        for key in (EPISODE_ZARR, EPISODE_ANNOTATIONS, EPISODE_CALIBRATION):
            made_from = latest_inputs(instance, key, upstream=RAW_EPISODE)
            todo = [recording for recording in recordings if made_from.get(recording) != recordings[recording]]
            if key != EPISODE_ZARR:
                built = latest_inputs(instance, EPISODE_ZARR, upstream=RAW_EPISODE)
                todo = [recording for recording in todo if recording in built]
            if todo:
                self.say(f"{key.to_user_string()}: {len(todo)} of {len(recordings)} recordings")
                self.launch.partitions(key, RECORDINGS, keys=todo)
            else:
                self.skip(f"{key.to_user_string()} ({len(recordings)} recordings)")

    def tables(self) -> None:
        """Bring the Lance copy up to date and prove that it says the same."""
        if content_parity_needed(self.paths):
            self.say("lance_v2 and parity_report")
            self.launch.asset(LANCE_V2)
            self.launch.asset(PARITY_REPORT)
        else:
            self.skip("lance_v2 and parity_report")

    def rule(self) -> DatasetRule:
        """Return the rule that was asked for; for a delivery of one's own the vendor's rule, narrowed to it and named like it."""
        if self.plan.raw is None or self.plan.rule is not None:
            return keep_rule(self.paths, self.plan.rule or DEFAULTS[self.plan.vendor].rule)
        template = DEFAULTS[self.plan.vendor].rule
        return rule_for_delivery(self.paths, template=template, vendor=self.plan.vendor, delivery=self.plan.raw.name)

    def tell_what_is_not_in(self, manifest: Manifest, rule: DatasetRule) -> None:
        """Say so where the store has moved on since the dataset was frozen; it stays as it is."""
        held = {episode.content for episodes in manifest.heads.values() for episode in episodes}
        rows = [row for row in catalog_from_lance(self.paths) if matches(row, rule.where)]
        other = [row for row in rows if row.content not in held]
        if other:
            self.say(
                f"{len(other)} of {len(rows)} episodes are not in {manifest.ref}, which stays as it was frozen; another version takes them"
            )

    def dataset(self) -> Manifest:
        """Freeze the dataset unless this version is frozen already; then statistics and loader parity."""
        rule = self.rule()
        ref, instance = f"{rule.name}@{rule.version}", self.launch.instance
        try:
            manifest = load_dataset(self.paths, ref)
            self.skip(f"dataset {ref}")
            self.tell_what_is_not_in(manifest, rule)
        except NotFoundError:
            self.say(f"dataset {ref}")
            add_keys(instance, DATASETS, keys=[dataset_key(rule.name, rule.version)])
            self.launch.asset(DATASET, partition=dataset_key(rule.name, rule.version))
            manifest = load_dataset(self.paths, ref)
        key = recipe_key(rule.name, rule.version, recipe=self.plan.recipe)
        add_keys(instance, DATASET_RECIPES, keys=[key])
        if key in instance.get_materialized_partitions(NORM_STATS):
            self.skip(f"norm_stats {key}")
        else:
            self.say(f"norm_stats {key}")
            self.launch.asset(NORM_STATS, partition=key)
        if loader_parity_needed(self.paths, manifest, recipe=self.plan.recipe):
            self.say(f"loader_parity {key}")
            self.launch.asset(LOADER_PARITY, partition=key)
        else:
            self.skip(f"loader_parity {key}")
        return manifest

    def train(self, manifest: Manifest) -> dict[str, Mapping[str, Any]]:
        """Train once per format with the same seed; return the results by format."""
        results: dict[str, Mapping[str, Any]] = {}
        for format in FORMATS:
            run = f"quickstart-{manifest.name}-{manifest.version}-{format}-{self.plan.words_digest}"
            result = run_result(self.paths, run)
            if result is None or result.get("dataset_digest") != manifest.digest:
                self.say(f"training_run {run}")
                config = {
                    "run": run,
                    "experiment": self.plan.experiment,
                    "dataset": manifest.ref,
                    "recipe": self.plan.recipe,
                    "format": format,
                    "overrides": list(self.plan.overrides),
                }
                self.launch.asset(TRAINING_RUN, config=config)
                result = run_result(self.paths, run)
            else:
                self.skip(f"training_run {run}")
            results[format] = result or {}
        return results


def quickstart(plan: Plan) -> int:
    """Run all stages and print the closing table.

    Returns:
        0, or 1 if recordings were set aside or a verdict failed.
    """
    paths = open_root(plan.store, create=True)
    require_writable(paths)
    os.environ[STORE_VARIABLE] = str(paths.root)
    with open_instance(paths) as instance:
        chain = _Chain(plan, paths, Launcher(instance))
        delivery = chain.delivery()
        chain.episodes(chain.recordings(delivery))
        chain.tables()
        manifest = chain.dataset()
        results = chain.train(manifest)
    outcome = collect(paths, manifest, plan=plan, delivery=delivery, results=results)
    print_outcome(outcome, done=chain.done)
    chain.say("quickstart done")
    return outcome.status

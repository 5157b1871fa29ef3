"""Batches that tell the truth: an event for every finished partition as it finishes, and a failure that names the others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from egodata.errors import EgodataError
from egodata.findings import Finding, Severity
from egodata.ingest import Outcome
from egodata.ingest.report import SET_ASIDE
from egodata.schema.canonical import json_digest
from egodata.schema.layout import StorePaths
from pipelines.check_summary import summed_up
from pipelines.episode_checks import check_episode
from pipelines.events import input_tags, partition_materialization
from pipelines.history import Verdict, keep_verdicts, newest_table
from pipelines.metadata import checks_table, findings_table, findings_text, reasons_text
from pipelines.units import Unit, is_shard

FLUSH_EVERY = 300
"""Verdicts after which they are kept, so that a killed batch loses few: those of fifty recordings, or of one shard."""


@dataclass(frozen=True, slots=True)
class Made:
    """What became of one recording.

    Attributes:
        contents: Content digest by episode id; empty where it failed.
        findings: Why it failed, or what was noticed.
        metadata: What a person wants to see.
    """

    contents: Mapping[str, str]
    findings: tuple[Finding, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    failed: bool = False


@dataclass(slots=True)
class Batch:
    """One run over several partitions.

    Attributes:
        context: Of the running asset.
        paths: The store.
        upstream: Assets with the same partitions that the work reads.
        units: The partitions.
        checks: Severity, and whether a failure blocks, of each of the asset's checks in Dagster.
        failed: Findings of the partitions that failed.
    """

    context: dg.AssetExecutionContext
    paths: StorePaths
    upstream: Sequence[dg.AssetKey]
    units: Sequence[Unit]
    checks: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    failed: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    _made: dict[str, dict[str, Made]] = field(default_factory=dict)
    _verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    _unit_of: dict[str, Unit] = field(default_factory=dict)
    _closed: set[str] = field(default_factory=set)

    _inputs: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # What the work starts from: a recording that is delivered again meanwhile has to show as stale afterwards.
        self._inputs = input_tags(self.context.instance, [unit.key for unit in self.units], upstream=self.upstream)
        self._unit_of = {recording: unit for unit in self.units for recording in unit.recordings}

    def recordings(self) -> list[str]:
        """Return every recording of the run."""
        return list(self._unit_of)

    def gone(self, reasons: Mapping[str, str]) -> None:
        """Report partitions that no delivery holds any more."""
        for key, reason in reasons.items():
            self._fail(key, (Finding("not-delivered", Severity.ERROR, key, reason),))

    def made(self, recording: str, made: Made) -> None:
        """Report one recording; its partition is finished with the last of its recordings."""
        unit = self._unit_of[recording]
        so_far = self._made.setdefault(unit.key, {})
        so_far[recording] = made
        if len(so_far) == len(unit.recordings):
            del self._made[unit.key]
            self._closed.add(unit.key)
            self._finish_unit(unit, so_far)

    def outcome(self, outcome: Outcome, *, metadata: Mapping[str, object]) -> None:
        """Report what ingest did with one recording."""
        name = outcome.recording
        if name not in self._unit_of and outcome.findings:
            name = outcome.findings[0].episode  # what discovery refused goes by the id that the vendor gave
        if outcome.status == SET_ASIDE:
            self.made(name, Made({}, outcome.findings, failed=True))
        else:
            self.made(name, Made(outcome.episodes, outcome.findings, metadata))

    def unfinished(self, recordings: Iterable[str], *, error: Exception) -> None:
        """Report that the work on a whole delivery ended early; recordings that were reported before keep what they were."""
        for recording in recordings:
            unit = self._unit_of[recording]
            if unit.key not in self._closed and recording not in self._made.get(unit.key, {}):
                finding = Finding("delivery-unreadable", Severity.ERROR, recording, f"{type(error).__name__}: {error}")
                self.made(recording, Made({}, (finding,), failed=True))

    def _finish_unit(self, unit: Unit, made: Mapping[str, Made]) -> None:
        contents = {episode_id: content for one in made.values() for episode_id, content in one.contents.items()}
        verdicts, damage = self._check(contents)
        self._verdicts[unit.key] = verdicts
        broken = [finding for one in made.values() if one.failed for finding in one.findings] + damage
        if broken:
            self._fail(unit.key, tuple(broken), of=len(made))
        else:
            event = partition_materialization(
                self.context,
                unit.key,
                version=json_digest(contents),
                inputs=self._inputs.get(unit.key, {}),
                metadata={**_joined(made), "checks": checks_table(verdicts)},
            )
            self.context.log_event(event)
        if sum(map(len, self._verdicts.values())) >= FLUSH_EVERY:
            self._flush()

    def _check(self, contents: Mapping[str, str]) -> tuple[list[Verdict], list[Finding]]:
        verdicts: list[Verdict] = []
        damage: list[Finding] = []
        for episode_id in contents:
            try:
                found = check_episode(self.paths, episode_id)
            except EgodataError as error:
                found = [Verdict("digests", False, str(error), blocking=True, episode_id=episode_id)]
            verdicts += found
            damage += [
                Finding(f"check-{one.check}", Severity.ERROR, episode_id, one.value, content=one.content)
                for one in found
                if one.blocking and not one.passed
            ]
        return verdicts, damage

    def _fail(self, key: str, findings: tuple[Finding, ...], *, of: int = 1) -> None:
        self.failed[key] = findings
        recordings = len({finding.episode for finding in findings})
        reason = findings_text(findings) if of == 1 else f"{recordings} of {of} recordings:\n{findings_text(findings)}"
        seen = reason if is_shard(key) else findings[0].message  # a shard's own name says nothing about which recording it is
        self._verdicts.setdefault(key, []).append(Verdict("built", False, seen, blocking=True))
        self.context.log.error(findings_text(findings))
        metadata: dict[str, Any] = {"failed": dg.MetadataValue.md(f"**set aside**: {reason}"), "findings": findings_table(findings)}
        tags = self._inputs.get(key, {})  # so that the same bytes are not tried again by themselves
        self.context.log_event(dg.AssetObservation(self.context.asset_key, partition=key, metadata=metadata, tags=tags))

    def _flush(self) -> None:
        asset = self.context.asset_key.to_python_identifier()
        keep_verdicts(self.paths, self._verdicts, asset=asset, run_id=self.context.run.run_id)
        self._verdicts = {}

    def _evaluate(self) -> None:
        """Give the verdicts of the asset's checks from here.

        Dagster skips the checks' own steps in the run of a batch: they wait for an output, and a batch gives events instead.
        """
        if not self.checks:
            return
        key = self.context.asset_key
        newest = newest_table(self.paths, asset=key.to_python_identifier())
        for name, (severity, blocking) in self.checks.items():
            verdict = summed_up(newest, name, severity=severity, blocking=blocking)
            if verdict["metadata"]["looked_at"]:
                self.context.log_event(dg.AssetCheckEvaluation(asset_key=key, check_name=name, **verdict))

    def finish(self) -> None:
        """End the run.

        Raises:
            Failure: Some partitions failed; the others stay done. Its text names every failed recording with its reason, since the
                page of a failed partition leads there.
        """
        self._flush()
        self._evaluate()
        if self.failed:
            findings = [finding for found in self.failed.values() for finding in found]
            raise dg.Failure(
                description=f"{len(self.failed)} of {len(self.context.partition_keys)} partitions failed:\n{reasons_text(findings)}",
                metadata={"set_aside": sorted(self.failed), "findings": findings_table(findings)},
                allow_retries=False,
            )


def _joined(made: Mapping[str, Made]) -> dict[str, object]:
    """Return the metadata of a recording, or the counts over the recordings of a shard."""
    if len(made) == 1:
        return dict(next(iter(made.values())).metadata)
    contents = {episode_id: content for one in made.values() for episode_id, content in one.contents.items()}
    findings = [finding for one in made.values() for finding in one.findings]
    joined: dict[str, object] = {
        "recordings": len(made),
        "episodes": len(contents),
        "frames": sum(int(str(one.metadata.get("frames", 0))) for one in made.values()),
        "content": json_digest(contents),
        "findings_count": len(findings),
    }
    if findings:
        joined["findings"] = findings_table(findings)
    return joined

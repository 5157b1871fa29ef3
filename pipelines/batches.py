"""Batches that tell the truth: an event for every finished partition as it finishes, and a failure that names the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import dagster as dg

from egodata.findings import Finding
from egodata.ingest import Outcome
from egodata.ingest.report import SET_ASIDE
from egodata.schema.canonical import json_digest
from egodata.schema.layout import StorePaths
from pipelines.events import partition_materialization
from pipelines.metadata import episode_metadata, findings_table, findings_text


@dataclass(slots=True)
class Batch:
    """One run over several recordings.

    Attributes:
        context: Of the running asset.
        paths: The store.
        upstream: Assets with the same partitions that the work reads.
        failed: Findings of the recordings that were set aside.
    """

    context: dg.AssetExecutionContext
    paths: StorePaths
    upstream: Sequence[dg.AssetKey]
    failed: dict[str, tuple[Finding, ...]] = field(default_factory=dict)

    def done(self, recording: str, *, contents: dict[str, str], metadata: dict[str, object]) -> None:
        """Report one finished partition; its data version follows the contents of its episodes."""
        event = partition_materialization(self.context, recording, version=json_digest(contents), upstream=self.upstream, metadata=metadata)
        self.context.log_event(event)

    def outcome(self, outcome: Outcome) -> None:
        """Report what ingest did with one recording."""
        if outcome.status == SET_ASIDE:
            self.failed[outcome.recording] = outcome.findings
            self.context.log.error(findings_text(outcome.findings))
        else:
            self.done(outcome.recording, contents=dict(outcome.episodes), metadata=episode_metadata(self.paths, outcome))

    def finish(self) -> None:
        """End the run.

        Raises:
            Failure: Some recordings were set aside; the others stay done.
        """
        if self.failed:
            findings = [finding for found in self.failed.values() for finding in found]
            raise dg.Failure(
                description=f"{len(self.failed)} of {len(self.context.partition_keys)} recordings set aside:\n{findings_text(findings)}",
                metadata={"set_aside": sorted(self.failed), "findings": findings_table(findings)},
                allow_retries=False,
            )

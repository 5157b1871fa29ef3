"""The history of checks, waivers, and notices of failed runs."""

import json
import sys
from pathlib import Path

import dagster as dg
import pytest

from egodata.doctor.stored import known_findings
from egodata.findings import Finding, Severity
from egodata.schema.layout import StorePaths, open_root
from pipelines.check_summary import summed_up
from pipelines.dataset_checks import require_passed
from pipelines.history import WARN, Verdict, keep_verdicts, newest, newest_table, read_history
from pipelines.metadata import REASONS, reasons_text
from pipelines.notices import COMMAND_VARIABLE, keep_notice, notices_file
from pipelines.waivers import keep_gate_findings


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return open_root(tmp_path / "store", create=True)


def test_every_verdict_is_kept_and_the_newest_is_found(paths: StorePaths) -> None:
    good, bad = Verdict("digests", True, episode_id="a"), Verdict("digests", False, "changed", episode_id="a", blocking=True)
    assert keep_verdicts(paths, {}, asset="episode_zarr", run_id="r0") is None
    for number, verdict in enumerate([good, bad, good]):
        keep_verdicts(
            paths, {"a": [verdict], "b": [Verdict("digests", True, episode_id="b")]}, asset="episode_zarr", run_id=f"run-{number}"
        )
    keep_verdicts(paths, {"mine--v1": [Verdict("leakage_gates", True)]}, asset="dataset", run_id="run-3")
    rows = read_history(paths, asset="episode_zarr", partition="a")
    assert [row["passed"] for row in rows] == [True, False, True]
    assert rows[1]["blocking"] and rows[1]["value"] == "changed" and rows[1]["run_id"] == "run-1"
    assert {row["check"] for row in read_history(paths, check="leakage_gates")} == {"leakage_gates"}
    assert read_history(paths, asset="episode_zarr", check="leakage_gates") == []
    last = newest(read_history(paths))
    assert {(row["asset"], row["partition"]): row["run_id"] for row in last} == {
        ("episode_zarr", "a"): "run-2",
        ("episode_zarr", "b"): "run-2",
        ("dataset", "mine--v1"): "run-3",
    }


def test_a_check_is_summed_up_over_the_newest_verdict_of_every_partition(paths: StorePaths) -> None:
    nothing = summed_up(newest_table(paths, asset="episode_zarr"), "digests", severity=WARN, blocking=False)
    assert (nothing["passed"], nothing["metadata"]["looked_at"]) == (False, 0)
    for number, (first, second) in enumerate([(False, True), (True, False)]):  # a is repaired, b breaks
        verdicts = {"a": [Verdict("digests", first, f"a{number}", episode_id="a")], "b": [Verdict("digests", second, episode_id="b")]}
        keep_verdicts(paths, verdicts, asset="episode_zarr", run_id=f"run-{number}")
    keep_verdicts(paths, {"c": [Verdict("schema", True, episode_id="c")]}, asset="episode_zarr", run_id="run-2")
    found = summed_up(newest_table(paths, asset="episode_zarr"), "digests", severity=WARN, blocking=False)
    assert (found["passed"], found["severity"]) == (False, dg.AssetCheckSeverity.WARN)
    assert (found["metadata"]["looked_at"], found["metadata"]["failed"]) == (2, 1)
    (failure,) = found["metadata"]["failures"].records
    assert (failure.data["partition"], failure.data["episode"]) == ("b", "b")
    assert summed_up(newest_table(paths, asset="episode_zarr"), "schema", severity=WARN, blocking=False)["passed"]


def test_the_failure_of_a_batch_names_every_recording_with_its_gravest_finding() -> None:
    findings = [Finding("late", Severity.WARNING, "a", "starts late"), Finding("broken", Severity.ERROR, "a", "no video")]
    assert reasons_text([*findings, Finding("gone", Severity.ERROR, "b", "not delivered")]) == "a: broken: no video\nb: gone: not delivered"
    many = reasons_text([Finding("broken", Severity.ERROR, f"r{number:03d}", "no video") for number in range(REASONS + 3)]).splitlines()
    assert len(many) == REASONS + 1
    assert many[-1] == "and 3 more; `egopipe status` names all"


def test_a_closed_gate_leaves_its_findings_to_be_looked_up(paths: StorePaths) -> None:
    finding = Finding("content-unproven", Severity.ERROR, "ep", "not proven", stream="parity/content", content="c" * 64)
    keep_gate_findings(paths, [finding], gate="freeze of mine@v1")
    kept = json.loads((paths.reports / "gates" / f"{finding.id}.json").read_text())
    assert (kept["id"], kept["gate"], kept["content"]) == (finding.id, "freeze of mine@v1", "c" * 64)
    assert known_findings(paths) == {finding.id: finding}, "so `egodata waive` knows it"


def test_a_failed_run_leaves_a_line_and_calls_the_labs_program(
    paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = dg.DagsterRun(job_name="build_episodes", run_id="0" * 36, asset_selection={dg.AssetKey("episode_zarr")})
    out = tmp_path / "told"
    program = f"{sys.executable} -c \"import sys; open('{out}', 'w').write(sys.stdin.read())\""
    monkeypatch.setenv(COMMAND_VARIABLE, program)
    keep_notice(paths, run, reasons=["3 of 60 partitions failed"])
    (line,) = notices_file(paths).read_text().splitlines()
    assert json.loads(line)["reasons"] == ["3 of 60 partitions failed"]
    assert json.loads(out.read_text()) == json.loads(line)
    monkeypatch.setenv(COMMAND_VARIABLE, "false")
    keep_notice(paths, run, reasons=["again"])
    assert len(notices_file(paths).read_text().splitlines()) == 2
    assert f"{COMMAND_VARIABLE} failed" in caplog.text


def test_an_asset_that_its_own_check_fails_leaves_the_verdict_in_dagster() -> None:
    @dg.asset
    def made(context: dg.AssetExecutionContext) -> None:
        require_passed(context, [Verdict("finite", False, "not finite: x", blocking=True)], what="statistics of a@v1")

    @dg.asset_check(asset=made)
    def finite() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([made, finite], instance=instance, raise_on_error=False)
        key = dg.AssetCheckKey(dg.AssetKey("made"), "finite")
        record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert not done.success
    assert record.status.value == "FAILED"
    assert record.event.dagster_event.asset_check_evaluation_data.metadata["seen"].value == "not finite: x"

"""A word to people when a run failed: a line in the store, and a program of the lab's own that mails or posts it."""

import json
import logging
import os
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from egodata.schema.layout import StorePaths

log = logging.getLogger(__name__)

COMMAND_VARIABLE = "EGO_NOTICE_COMMAND"
COMMAND_LIMIT_S = 30


def notices_file(paths: StorePaths) -> Path:
    """Return where notices are kept, one JSON object a line."""
    return paths.reports / "failed_runs.jsonl"


def keep_notice(paths: StorePaths, run: dg.DagsterRun, *, reasons: Sequence[str]) -> None:
    """Keep a notice, and hand it to the program that ``EGO_NOTICE_COMMAND`` names, on its standard input.

    A program that fails or takes longer than half a minute is logged: a notice must not stop the sensor.
    """
    assets = sorted(key.to_user_string() for key in run.asset_selection or ())
    notice = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "run_id": run.run_id,
        "job": run.job_name,
        "assets": assets,
        "partitions": {key: value for key, value in run.tags.items() if "partition" in key},
        "reasons": [reason[:2000] for reason in reasons],
    }
    line = json.dumps(notice, ensure_ascii=False) + "\n"
    path = notices_file(paths)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
    command = os.environ.get(COMMAND_VARIABLE)
    if command:
        try:
            subprocess.run(shlex.split(command), input=line.encode(), timeout=COMMAND_LIMIT_S, check=True, capture_output=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            log.warning("notice of run %s: %s failed: %s", run.run_id, COMMAND_VARIABLE, error)

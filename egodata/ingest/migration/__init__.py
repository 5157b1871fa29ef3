"""Bringing a store up to date after an upgrade: what is older, what can be rebuilt, what stays valid; and rebuilding it."""

from egodata.ingest.migration.judge import BLOCKED, CURRENT, NEWER, OUTDATED, Given, Judged
from egodata.ingest.migration.plan import MigrationPlan, plan_migration
from egodata.ingest.migration.run import Migrated, run_migration

__all__ = [
    "BLOCKED",
    "CURRENT",
    "NEWER",
    "OUTDATED",
    "Given",
    "Judged",
    "MigrationPlan",
    "Migrated",
    "plan_migration",
    "run_migration",
]

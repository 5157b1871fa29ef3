"""Which rule a dataset partition uses: the store's own, else the shipped one of that name."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from egodata.catalog import DatasetRule, load_rule
from egodata.config import find_config
from egodata.errors import ConflictError
from egodata.schema.ids import check_dataset_name
from egodata.schema.layout import StorePaths, write_atomic


def rules_folder(paths: StorePaths) -> Path:
    """Return the folder of a store's own rules."""
    return paths.ledger / "rules"


def rule_for(paths: StorePaths, name: str) -> DatasetRule:
    """Read the rule of a dataset.

    Raises:
        NotFoundError: Neither the store nor the package has a rule of that name.
        ConfigError: Its values do not fit.
    """
    own = rules_folder(paths) / f"{name}.yaml"
    return load_rule(str(own) if own.is_file() else name)


def keep_rule(paths: StorePaths, name: str) -> DatasetRule:
    """Take a rule by shipped name or path; one's own file is copied into the store, so that the UI can use it later.

    Raises:
        ConflictError: The store holds another rule of that name.
    """
    rule = load_rule(name)
    given = Path(name)
    if given.suffix in (".yaml", ".yml"):
        _keep(paths, rule.name, given.read_bytes())
    return rule


def rule_for_delivery(paths: StorePaths, *, template: str, vendor: str, delivery: str) -> DatasetRule:
    """Make a rule for the episodes of one delivery, named like it, from a shipped rule; keep it in the store.

    Raises:
        SchemaError: The delivery's name cannot name a dataset.
        ConflictError: The store holds another rule of that name.
    """
    shipped = yaml.safe_load(find_config("datasets", template).read_text())
    values: Mapping[str, object] = {**shipped, "name": delivery, "where": {"vendor": vendor, "delivery": delivery}}
    head = f"# From the shipped rule {template}, for one delivery.\n"
    _keep(paths, check_dataset_name(delivery), (head + yaml.safe_dump(values, sort_keys=False)).encode())
    return rule_for(paths, delivery)


def _keep(paths: StorePaths, name: str, body: bytes) -> None:
    kept = rules_folder(paths) / f"{name}.yaml"
    if kept.exists() and kept.read_bytes() != body:
        raise ConflictError(f"rule {name}: the store holds another one of that name in {kept}. Give the new one another name.")
    write_atomic(kept, body)

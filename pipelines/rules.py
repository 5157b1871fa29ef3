"""Which rule a dataset partition uses: the store's own, else the shipped one of that name."""

from pathlib import Path

from egodata.catalog import DatasetRule, load_rule
from egodata.errors import ConflictError
from egodata.schema.layout import StorePaths, write_atomic


def rules_folder(paths: StorePaths) -> Path:
    """Return the folder of a store's own rules."""
    return paths.datasets / "rules"


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
        kept = rules_folder(paths) / f"{rule.name}.yaml"
        if kept.exists() and kept.read_bytes() != given.read_bytes():
            raise ConflictError(f"rule {given}: the store holds another rule named {rule.name} in {kept}. Give the new one another name.")
        write_atomic(kept, given.read_bytes())
    return rule

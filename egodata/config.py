"""Typed configuration: dataclasses are the schema, YAML holds values only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from egodata.errors import ConfigError, NotFoundError
from egodata.names import nearest

T = TypeVar("T")

strict_config = with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
"""Decorator for config dataclasses: an unknown key is an error, and so is a number that is NaN or infinite: every bound lets it pass."""


def config_root() -> Path:
    """Return the folder of shipped configs: inside the package when installed, else beside it in the repository."""
    package = Path(__file__).parent
    packaged = package / "_configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


def find_config(group: str, name: str) -> Path:
    """Find a shipped config by name, or take a path to one's own.

    Args:
        group: Folder below configs, such as ``recipes``.
        name: Name without suffix, or a path ending in ``.yaml``.

    Raises:
        NotFoundError: Neither; the message lists the nearest names.
    """
    own = Path(name)
    if own.suffix in (".yaml", ".yml"):
        if own.is_file():
            return own
        raise NotFoundError(f"config {name}: no such file")
    path = config_root() / group / f"{name}.yaml"
    if not path.is_file():
        known = [found.stem for found in (config_root() / group).glob("*.yaml")]
        raise NotFoundError(f"config {group}/{name}: not shipped; {nearest(name, known)}")
    return path


def typed(cls: type[T], value: Any, *, where: str) -> T:
    """Check plain values against a dataclass and build it.

    Raises:
        ConfigError: Naming the first five wrong keys: what was expected and what came.
    """
    try:
        return TypeAdapter(cls).validate_python(value)
    except ValidationError as error:
        problems = [_problem(item) for item in error.errors()]
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise ConfigError(f"{where}: {'; '.join(problems[:5])}{more}") from error


def _problem(item: Mapping[str, Any]) -> str:
    """Say what is wrong with one value. A group as a whole is not printed: its own check names what it expects."""
    place, value = [str(part) for part in item["loc"]], item["input"]
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix(f"{place[-1] if place else ''}: ")
    got = "" if item["type"] == "value_error" and isinstance(value, dict) else f", got {value!r:.80}"
    return f"{'.'.join(place) or '(top)'}: {message}{got}"


def load_config(path: Path, cls: type[T]) -> T:
    """Read a YAML file of values into a dataclass.

    Raises:
        ConfigError: Not YAML, or values that do not fit.
        NotFoundError: No such file.
    """
    try:
        value = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"config {path}: no such file") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"config {path}: not YAML ({' '.join(str(error).split())})") from error
    return typed(cls, value or {}, where=f"config {path}")

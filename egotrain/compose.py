"""From a command line to a typed config: Hydra joins the YAML files, our dataclasses check the result."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hydra import compose as hydra_compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from egodata.config import config_root, typed
from egodata.errors import ConfigError
from egodata.names import nearest
from egotrain.conf import EvaluateConfig, FitConfig

GROUPS = ("experiment", "policy", "trainer")
T = TypeVar("T")


def compose_fit(overrides: Sequence[str]) -> FitConfig:
    """Compose the config of a training run.

    Args:
        overrides: ``key=value`` words of a command line; values of text keys are taken as they are, ``~`` and ``=`` included.

    Raises:
        ConfigError: An unknown key (the nearest are named), a missing or a wrong value.
    """
    return _compose("train", FitConfig, overrides, groups=GROUPS)


def compose_evaluate(overrides: Sequence[str]) -> EvaluateConfig:
    """Compose the config of an evaluation; see `compose_fit`."""
    return _compose("evaluate", EvaluateConfig, overrides, groups=())


def leaf_keys(cls: type, prefix: str = "") -> dict[str, bool]:
    """Return the dotted keys of a config dataclass, and whether each holds text."""
    hints, out = get_type_hints(cls), {}
    for item in fields(cls):
        kind = hints[item.name]
        if is_dataclass(kind) and isinstance(kind, type):
            out.update(leaf_keys(kind, f"{prefix}{item.name}."))
        else:
            out[f"{prefix}{item.name}"] = _holds_text(kind)
    return out


def _holds_text(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_holds_text(part) for part in get_args(kind))
    return kind is str


def quoted(value: str) -> str:
    """Quote text for Hydra's grammar, in which ``~``, ``=``, commas and braces mean something."""
    parts = value.split("'")
    escaped = [part + "\\" * (len(part) - len(part.rstrip("\\"))) for part in parts]
    return "'" + "\\'".join(escaped) + "'"


def _checked(word: str, keys: dict[str, bool], groups: Sequence[str]) -> str:
    key, equals, value = word.partition("=")
    if not equals:
        raise ConfigError(f"{word!r}: expected key=value, such as seed=1")
    if key in groups:
        return _choice(key, value)
    if key not in keys:
        inner = [known for known in keys if known.rpartition(".")[2] == key]
        hint = f"did you mean {', '.join(inner)}?" if inner else nearest(key, [*keys, *groups])
        raise ConfigError(f"config key {key!r}: not known; {hint}")
    return f"{key}={quoted(value)}" if keys[key] and value not in ("null", "") else word


def _choice(group: str, choice: str) -> str:
    known = [path.stem for path in (config_root() / group).glob("*.yaml")]
    if choice != "null" and choice not in known:
        raise ConfigError(f"{group} {choice!r}: not shipped; {nearest(choice, known)}")
    return f"{group}={choice}"


def _compose(name: str, cls: type[T], overrides: Sequence[str], *, groups: Sequence[str]) -> T:
    keys = leaf_keys(cls)
    words = [_checked(word, keys, groups) for word in overrides]
    try:
        with initialize_config_dir(config_dir=str(config_root().absolute())):
            composed = hydra_compose(config_name=name, overrides=words)
        missing = sorted(OmegaConf.missing_keys(composed))
        if missing:
            raise ConfigError(f"config {name}: missing {', '.join(missing)}. Add {missing[0]}=VALUE to the command.")
        values = OmegaConf.to_container(composed, resolve=False)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"config {name}: {str(error).splitlines()[0]}") from error
    return typed(cls, values, where=f"config {name}")

"""From a command line to a typed config: Hydra joins the YAML files, our dataclasses check the result."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from hydra import compose as hydra_compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from egodata.config import config_root, typed
from egodata.errors import ConfigError
from egodata.names import nearest
from egotrain.conf import EvaluateConfig, FitConfig

GROUPS = ("experiment", "policy", "trainer")
LISTS = {"co_train": "[{dataset: NAME@V, recipe: RECIPE, weight: 1.0}]"}
"""Keys that hold lists of settings, and how one is written."""
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
    """Return the dotted keys of a config dataclass, and whether each holds text.

    Where a key may hold one of several dataclasses, the keys of all of them are returned.
    """
    hints, out = get_type_hints(cls), {}
    for item in fields(cls):
        kind = hints[item.name]
        choices = () if get_origin(kind) is tuple else get_args(kind)  # a list of dataclasses is one key
        inner = [one for one in (kind, *choices) if isinstance(one, type) and is_dataclass(one)]
        for one in inner:
            out.update(leaf_keys(one, f"{prefix}{item.name}."))
        if not inner:
            out[f"{prefix}{item.name}"] = kind is str
    return out


def _split(word: str, keys: dict[str, bool], groups: Sequence[str]) -> tuple[str, str]:
    """Return key and value of a word, both checked as far as they can be by themselves."""
    key, equals, value = word.partition("=")
    if not equals:
        raise ConfigError(f"{word!r}: expected key=value, such as seed=1")
    if key in groups:
        known_choices = [path.stem for path in (config_root() / key).glob("*.yaml")]
        if value != "null" and value not in known_choices:
            raise ConfigError(f"{key} {value!r}: not shipped; {nearest(value, known_choices)}")
        return key, value
    if key in LISTS and not (value.startswith("[") and value.endswith("]")):
        raise ConfigError(f"config key {key}: expected a list, got {value!r}. Write it as '{key}={LISTS[key]}', in quotes.")
    if key not in keys:
        inner = [known for known in keys if known.rpartition(".")[2] == key]
        hint = f"did you mean {', '.join(inner)}?" if inner else nearest(key, [*keys, *groups])
        raise ConfigError(f"config key {key!r}: not known; {hint}")
    return key, value


def _compose(name: str, cls: type[T], overrides: Sequence[str], *, groups: Sequence[str]) -> T:
    """Let Hydra join groups and numbers. Text never goes through its grammar, in which ``~``, ``=`` and braces mean something."""
    keys = leaf_keys(cls)
    pairs = [_split(word, keys, groups) for word in overrides]
    text = {key: value for key, value in pairs if keys.get(key)}
    words = [f"{key}={value}" if key in groups else f"++{key}={value}" for key, value in pairs if key not in text]  # known, but not in YAML
    try:
        with initialize_config_dir(config_dir=str(config_root().absolute())):
            composed = hydra_compose(config_name=name, overrides=words)
        missing = sorted(OmegaConf.missing_keys(composed) - text.keys())
        if missing:
            raise ConfigError(f"config {name}: missing {', '.join(missing)}. Add {missing[0]}=VALUE to the command.")
        values = cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"config {name}: {str(error).splitlines()[0]}") from error
    for key, value in text.items():
        *parents, last = key.split(".")
        inner = values
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    return typed(cls, values, where=f"config {name}")

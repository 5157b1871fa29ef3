"""Sweeps: words with several values become one run per combination, in Hydra's own grammar of sweeps."""

from collections.abc import Sequence
from itertools import product

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from egodata.errors import ConfigError


def sweep(words: Sequence[str]) -> list[list[str]]:
    """Return the words of every run of a sweep.

    A word ``key=a,b`` or ``key=range(1,4)`` or ``key=choice(a,b)`` is one dimension, the last one changing fastest. Runs are named
    after the sweep and their place in it: ``run=lr`` gives ``lr-000``, ``lr-001``, and so on.

    Raises:
        ConfigError: No word sweeps, a word that Hydra cannot read, or no ``run=``.

    >>> sweep(["run=lr", "optim.learning_rate=1e-3,3e-4"])
    [['run=lr-000', 'optim.learning_rate=1e-3'], ['run=lr-001', 'optim.learning_rate=3e-4']]
    """
    names = [word.partition("=")[2] for word in words if word.startswith("run=")]
    if not names:
        raise ConfigError("sweep: missing run. Add run=NAME; its runs are called NAME-000, NAME-001, and so on.")
    dimensions = [_values(word) for word in words if not word.startswith("run=")]
    if all(len(values) == 1 for values in dimensions):
        raise ConfigError("sweep: no word has several values, such as seed=0,1,2. Add one, or leave --multirun out.")
    return [[f"run={names[-1]}-{number:03d}", *chosen] for number, chosen in enumerate(product(*dimensions))]


def _values(word: str) -> list[str]:
    """Return a word once per value; a word without a comma or parenthesis sweeps nothing, and never meets the grammar."""
    key, _, value = word.partition("=")
    if not any(mark in value for mark in ",(") or value.startswith(("[", "{", '"', "'")):
        return [word]
    try:
        found = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise ConfigError(f"sweep: {word!r} cannot be read ({str(error).splitlines()[0]}). Quote a text with commas.") from error
    return [f"{key}={one}" for one in found.sweep_string_iterator()] if found.is_sweep_override() else [word]

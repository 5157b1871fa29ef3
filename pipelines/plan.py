"""What a quickstart is to do, from what the command line was given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from egodata.config import find_config
from egodata.errors import InputError
from egodata.schema.canonical import json_digest


class Defaults(NamedTuple):
    """What a vendor's deliveries are split, sampled and trained by, unless one says otherwise."""

    rule: str
    recipe: str
    experiment: str


DEFAULTS = {"mecka": Defaults("synthetic", "human_wrist6d", "synthetic"), "lerobot": Defaults("joints", "joints", "joints")}
BRIEF = ("evaluation.samples_per_head=64",)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a quickstart is to do.

    Attributes:
        raw: Delivery of one's own, or None for a synthetic one inside the store.
        vendor: Who delivered it.
        store: Root of the store.
        rule: Dataset rule; None takes the vendor's.
        recipe: Sampling recipe.
        experiment: Training experiment.
        overrides: Further words for `egotrain fit`.
        episodes: Size of the synthetic delivery.
    """

    raw: Path | None
    vendor: str
    store: Path
    rule: str | None
    recipe: str
    experiment: str
    overrides: tuple[str, ...] = ()
    episodes: int = 24

    @classmethod
    def resolve(cls, **given: Any) -> "Plan":
        """Fill in what the vendor implies.

        Raises:
            InputError: No default for the vendor, or a delivery that is not a folder.
            NotFoundError: No such rule, recipe or experiment: said before hours of work, not after.
        """
        vendor, raw = given["vendor"], given["raw"]
        if vendor not in DEFAULTS and None in (given["rule"], given["recipe"], given["experiment"]):
            raise InputError(f"vendor {vendor}: no default rule, recipe and experiment. Give --rule, --recipe and --experiment.")
        if raw is not None and not raw.is_dir():
            raise InputError(f"delivery {raw}: not a folder")
        fallback = DEFAULTS.get(vendor, Defaults("", "", ""))
        for group, name in (("datasets", "rule"), ("recipes", "recipe"), ("experiment", "experiment")):
            if given[name] is not None:
                find_config(group, given[name])
        return cls(
            raw=None if raw is None else raw.absolute(),
            vendor=vendor,
            store=given["store"].absolute(),
            rule=given["rule"],
            recipe=given["recipe"] or fallback.recipe,
            experiment=given["experiment"] or fallback.experiment,
            overrides=(*BRIEF, f"trainer.max_steps={given['steps']}", *given["overrides"]),
            episodes=given["episodes"],
        )

    @property
    def words_digest(self) -> str:
        """Eight digits that name what the training was told, so that other words make another run."""
        return json_digest([self.experiment, self.recipe, list(self.overrides)])[:8]

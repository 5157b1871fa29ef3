"""Several heads in one stream."""

from dataclasses import dataclass

from egodata.errors import InputError, RecipeError
from egodata.sampling.plans import Mixed
from egodata.sampling.recipe import Recipe
from egodata.sampling.source import HeadSource


@dataclass(frozen=True, slots=True)
class MixturePart:
    """One head of a mixture.

    Attributes:
        name: For counts and messages, such as ``fold_clothes@v1``.
        source: The head.
        weight: Its share of the samples, relative to the others.
    """

    name: str
    source: HeadSource
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Mixture:
    """Heads that are read together.

    Attributes:
        parts: At least one.
        seed: Of the order among them; each head's own seed decides its own order and prompts.
        per_batch: Whether a global batch comes from one head. Needed where heads differ in numbers or images.
        samples_per_epoch: None for as many as the heads have together.
    """

    parts: tuple[MixturePart, ...]
    seed: int = 0
    per_batch: bool = False
    samples_per_epoch: int | None = None

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not names or len(set(names)) != len(names):
            raise InputError(f"mixture: expected heads with different names, got {', '.join(names) or 'none'}.")
        for part in self.parts:
            if not part.weight > 0 or len(part.source) == 0:
                found = f"{part.name} has weight {part.weight} and {len(part.source)} samples"
                raise InputError(f"mixture: {found}; both must be above 0. Leave it out.")
        if not self.per_batch:
            self._require_one_layout()

    def _require_one_layout(self) -> None:
        first = self.parts[0]
        for part in self.parts[1:]:
            mine, theirs = part.source, first.source
            if (mine.layout.action_names, mine.layout.proprio_names) != (theirs.layout.action_names, theirs.layout.proprio_names):
                raise RecipeError(
                    f"mixture: {part.name} has {mine.layout.action_dim} action and {mine.layout.proprio_dim} proprio channels, "
                    f"{first.name} {theirs.layout.action_dim} and {theirs.layout.proprio_dim}, or other names. "
                    "Mix them per batch, or choose one recipe."
                )
            if _shape(mine.recipe) != _shape(theirs.recipe):
                raise RecipeError(
                    f"mixture: recipes {mine.recipe.name} of {part.name} and {theirs.recipe.name} of {first.name} differ in "
                    "cameras, images or lengths, so one batch cannot hold both. Mix them per batch, or choose one recipe."
                )

    def __len__(self) -> int:
        return self.samples_per_epoch or sum(len(part.source) for part in self.parts)

    def require_all(self, *, batch_size: int, ranks: int) -> None:
        """Refuse a mixture of which an epoch would leave a part out.

        Raises:
            InputError: Naming the part and what would help.
        """
        counts = self.plan().counts(batch_size=batch_size, ranks=ranks)
        left = [part.name for part, count in zip(self.parts, counts, strict=True) if count == 0]
        if left:
            unit = f"batches of {batch_size * ranks}" if self.per_batch else "samples"
            raise InputError(
                f"mixture: an epoch of {len(self)} samples has no {unit} of {left[0]}. Raise its weight, lower the batch size, "
                "or leave it out."
            )

    @property
    def sources(self) -> tuple[HeadSource, ...]:
        """The heads in order."""
        return tuple(part.source for part in self.parts)

    def plan(self) -> Mixed:
        """Return the order in which the heads are read."""
        return Mixed(
            samples=tuple(len(part.source) for part in self.parts),
            weights=tuple(part.weight for part in self.parts),
            seeds=tuple(part.source.seed for part in self.parts),
            seed=self.seed,
            total=len(self),
            per_batch=self.per_batch,
        )


def _shape(recipe: Recipe) -> tuple[object, ...]:
    return recipe.cameras, recipe.image_history, recipe.action_steps, recipe.proprio_history, recipe.arms

"""Which encoder, from where, and how much of it learns. No torch here."""

from dataclasses import dataclass

from egodata.config import strict_config
from egodata.errors import ConfigError

CONV, HASHED_WORDS = "conv", "hashed-words"
ALL_LAYERS = -1


@strict_config
@dataclass(frozen=True, slots=True)
class ImageEncoderConfig:
    """Images to tokens.

    Attributes:
        source: ``conv`` for small convolutions trained from scratch, or a pretrained model that transformers knows: its folder, or its
            hub id if it is in the local cache. Nothing is downloaded.
        width: Of the tokens; 0 keeps the model's own.
        frozen_layers: Of the model, counted from the pixels, embedding included; -1 is all of it.
        learning_rate_share: Of the run's learning rate, for the model's own weights.
        conv_widths: Of ``conv``: channels of its stages; each halves the image, rounding up.
        keypoints: Of ``conv``: soft-argmax points per image.
        embedded: Architecture of the model, put there when a run starts, so that its checkpoint loads without the model's folder.
    """

    source: str
    width: int
    frozen_layers: int = 0
    learning_rate_share: float = 1.0
    conv_widths: tuple[int, ...] = ()
    keypoints: int = 0
    embedded: str = ""

    def __post_init__(self) -> None:
        if self.frozen_layers < ALL_LAYERS or self.learning_rate_share <= 0:
            raise ConfigError(f"images {self.source}: expected frozen_layers >= -1 and learning_rate_share > 0")
        if self.source == CONV and (not self.conv_widths or self.keypoints < 1 or self.width < 4 or self.width % 4 or self.frozen_layers):
            raise ConfigError("images conv: expected conv_widths, keypoints >= 1, a width in steps of 4, and nothing frozen")


@strict_config
@dataclass(frozen=True, slots=True)
class TextEncoderConfig:
    """Prompts to tokens.

    Attributes:
        source: ``hashed-words``, a table trained from scratch, or a pretrained text model: its folder, or its hub id if it is in the local
            cache. A pretrained one is always frozen, and its features are kept per prompt.
        tokens: Of a prompt that are read, at most.
        width: Of ``hashed-words``; 0 for a model.
        vocabulary: Of ``hashed-words``: buckets of the table.
        embedded: As for images, with the tokenizer.
    """

    source: str
    tokens: int
    width: int = 0
    vocabulary: int = 0
    embedded: str = ""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"text {self.source}: expected tokens >= 1, got {self.tokens}")
        if self.source == HASHED_WORDS and (self.width < 1 or self.vocabulary < 3):
            raise ConfigError("text hashed-words: expected width >= 1 and vocabulary >= 3")


def check_images(config: ImageEncoderConfig, size: tuple[int, int], *, policy: str) -> None:
    """Refuse images that are too small for the convolutions.

    Args:
        config: Of the encoder.
        size: Height and width, pixels.
        policy: Named in the error.

    Raises:
        ConfigError: The last stage would see less than 2 pixels.
    """
    if config.source == CONV and min(size) < 2 * 2 ** len(config.conv_widths):
        raise ConfigError(
            f"policy {policy}: {len(config.conv_widths)} conv stages halve images of {min(size)} pixels to less than 2. "
            f"Use fewer policy.images.conv_widths or larger data.image_height and data.image_width."
        )

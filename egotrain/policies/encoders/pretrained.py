"""A backbone that transformers builds: layers frozen, weights loaded once and checked by hash."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from egodata.errors import ConfigError, InputError
from egotrain.policies.encoders.architectures import EncoderConfig, architecture, source_folder
from egotrain.policies.encoders.config import ALL_LAYERS

NOT_READ = ("pooler.", "mask_token", "embeddings.mask_token")
"""Weights of a model that this project's features do not depend on."""


class Backbone(nn.Module):
    """A model of transformers. Frozen parts stay in eval mode whatever the policy is in, batch norms included."""

    def __init__(self, config: EncoderConfig, *, frozen_layers: int) -> None:
        """Build with fresh weights; `load` replaces them.

        Raises:
            ConfigError: More layers to freeze than there are.
        """
        super().__init__()
        from transformers import AutoModel

        self.source, self.pretrained_digest = config.source, ""
        self.model = AutoModel.from_config(architecture(config))
        self.model.to(torch.float32)
        self.frozen = _frozen_parts(self.model, frozen_layers, source=config.source)
        for part in self.frozen:
            part.requires_grad_(False)
        for name, parameter in self.model.named_parameters():
            if name.startswith(NOT_READ):
                parameter.requires_grad_(False)
        self.all_frozen = frozen_layers == ALL_LAYERS
        self.train(self.training)

    def train(self, mode: bool = True) -> "Backbone":
        """Change the mode of what is not frozen."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self

    def forward(self, *arguments: Any, **named: Any) -> Tensor:
        """Return the model's last hidden state."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.all_frozen):
            state: Tensor = self.model(*arguments, **named).last_hidden_state
        return state

    def load(self) -> None:
        """Take the weights of the model's folder.

        Raises:
            NotFoundError: It is not on this machine.
            InputError: It lacks weights that the features depend on, which transformers would make up.
        """
        from transformers import AutoModel

        folder = source_folder(self.source)
        try:
            with _no_bar():
                loaded, report = AutoModel.from_pretrained(
                    str(folder), local_files_only=True, dtype=torch.float32, output_loading_info=True
                )
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"encoder {self.source}: its weights cannot be read ({' '.join(str(error).split())[:160]})") from error
        lacking = [name for name in report["missing_keys"] if not name.startswith(NOT_READ)] + [
            str(one) for one in report["mismatched_keys"]
        ]
        if lacking:
            raise InputError(
                f"encoder {self.source}: its files lack {len(lacking)} weights of the model ({', '.join(sorted(lacking)[:3])}). "
                f"They would be random; use complete files."
            )
        self.model.load_state_dict(loaded.state_dict())
        self.pretrained_digest = state_digest(loaded)


@contextmanager
def _no_bar() -> Iterator[None]:
    """Keep transformers' own progress bar off, which it draws on pipes too."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


def _frozen_parts(model: nn.Module, count: int, *, source: str) -> list[nn.Module]:
    if count == 0:
        return []
    if count == ALL_LAYERS:
        return [model]
    name, layers = max(((name, part) for name, part in model.named_modules() if isinstance(part, nn.ModuleList)), key=lambda p: len(p[1]))
    if count > len(layers):
        raise ConfigError(f"encoder {source}: frozen_layers {count}, but it has {len(layers)}. Use -1 to freeze all of it.")
    top = name.partition(".")[0]
    before = []
    for child_name, child in model.named_children():
        if child_name == top:
            break
        before.append(child)
    return [*before, *layers[:count]]


def state_digest(module: nn.Module) -> str:
    """Return the SHA-256 of a module's weights and buffers, by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def backbones(policy: nn.Module) -> Iterator[tuple[str, Backbone]]:
    """Iterate over the backbones in a policy, by name."""
    return ((name, part) for name, part in policy.named_modules() if isinstance(part, Backbone))


def load_pretrained(policy: nn.Module) -> dict[str, str]:
    """Load the weights of every backbone of a finished policy, and check that it holds just those.

    Returns:
        SHA-256 of the weights by backbone.

    Raises:
        InputError: Files are incomplete.
        ConfigError: A backbone does not hold what was loaded.
    """
    for _, part in backbones(policy):
        part.load()
    return verify_pretrained(policy)


def verify_pretrained(policy: nn.Module) -> dict[str, str]:
    """Check that loaded backbones still hold what was loaded, which they do until the first step; see `load_pretrained`."""
    digests = {}
    for name, part in backbones(policy):
        digests[name] = part.pretrained_digest
        if state_digest(part.model) != part.pretrained_digest:
            raise ConfigError(f"policy: {name} does not hold the weights of {part.source}: something changed them after they were loaded")
    return digests

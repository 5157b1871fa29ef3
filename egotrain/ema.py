"""An exponential moving average of weights (Polyak and Juditsky 1992), with which a policy is scored while the plain ones train on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from egodata.errors import ConfigError


class Ema:
    """Averages of a module's trainable parameters; buffers and frozen parameters are not averaged."""

    def __init__(self, module: nn.Module, *, decay: float) -> None:
        """Start from the module's present weights.

        Args:
            module: Whose parameters.
            decay: In the long run; the first steps forget faster, so that the start has no weight for long.
        """
        self.decay = decay
        self._parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        self.shadow = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        shadow = list(self.shadow.values())
        torch._foreach_lerp_(shadow, [self._parameters[name].detach() for name in self.shadow], 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the averages into the module for as long as the context lasts."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, parameter in self._parameters.items():
            parameter.data, self.shadow[name] = self.shadow[name], parameter.data

    def restore(self, shadow: Mapping[str, Tensor]) -> None:
        """Take up the averages of a checkpoint.

        Raises:
            ConfigError: They are of other parameters.
        """
        if shadow.keys() != self.shadow.keys():
            raise ConfigError("checkpoint: its averaged weights are of another policy. Train again.")
        for name, tensor in shadow.items():
            self.shadow[name] = tensor.to(self.shadow[name], copy=True)

"""The whole RDT. Suffixes as in `policies.base`; J tokens of the chunk, R noise draws per sample."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial

import torch
from torch import Generator, Tensor, nn

from egotrain.policies.base import Observation, Policy, seen_cameras
from egotrain.policies.bodies import PerBody
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.images import image_encoder
from egotrain.policies.encoders.text import text_encoder
from egotrain.policies.layers import Mlp
from egotrain.policies.objective import objective_loss, sampled
from egotrain.policies.rdt.blocks import ActionIn, ActionOut, NumberToken, RdtBlock, StateAdaptor
from egotrain.policies.rdt.config import RdtConfig

TIME_RANGE = 1000.0
NUMBER_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Conditions:
    """What depends on the observation only.

    Attributes:
        fps_BE: Control frequency as a token.
        state_BKE: Proprio history.
        words_BME: Language.
        are_words_BM: What of it is no padding.
        images_BME: Tokens of all images of all cameras.
        are_images_BM: Those that were recorded and not dropped.
        summary_BE: Added to every token of the chunk; 0 without shortcuts.
    """

    fps_BE: Tensor
    state_BKE: Tensor
    words_BME: Tensor
    are_words_BM: Tensor
    images_BME: Tensor
    are_images_BM: Tensor
    summary_BE: Tensor

    def repeated(self, draws: int) -> "Conditions":
        """Return every sample `draws` times, neighbours equal."""
        return self if draws == 1 else Conditions(*(getattr(self, item.name).repeat_interleave(draws, 0) for item in fields(self)))


class RdtPolicy(Policy):
    """A transformer over [time, control frequency, state history, noised chunk], whose blocks attend to language and images in turn.

    Adaptors of state and action are one per embodiment; the rest is shared. A camera that the bodies of a batch do not have gives no
    tokens.
    """

    def __init__(self, config: RdtConfig, dims: PolicyDims) -> None:
        super().__init__()
        self.config, self.dims, width = config, dims, config.width
        self.image_encoder, self.text_encoder = image_encoder(config.images, dims), text_encoder(config.text)
        self.image_adaptor = Mlp(self.image_encoder.width, *[width] * config.image_depth)
        self.language_adaptor = Mlp(self.text_encoder.width, *[width] * config.language_depth)
        self.time, self.frequency = NumberToken(width), NumberToken(width)
        self.state_adaptors = PerBody(dims, lambda body: StateAdaptor(config, body))
        self.null_state_KE = nn.Parameter(torch.randn(dims.proprio_history, width) * 0.02)
        self.actions_in = PerBody(dims, lambda body: ActionIn(config, dims, body))
        self.actions_out = PerBody(dims, lambda body: ActionOut(config, dims, body))
        chunk_tokens = -(-dims.action_steps // config.steps_per_token)
        self.position_LE = nn.Parameter(torch.randn(NUMBER_TOKENS + dims.proprio_history + chunk_tokens, width) * 0.02)
        self.word_position_LE = nn.Parameter(torch.randn(config.text.tokens, width) * 0.02)
        images = len(dims.cameras) * dims.images
        self.image_position = nn.Parameter(torch.randn(images, self.image_encoder.tokens, width) * 0.02)
        whole = dims.proprio_history + len(dims.cameras) * self.image_encoder.direct
        self.summary = Mlp(whole * width, width, width) if config.shortcuts else None
        self.blocks = nn.ModuleList(RdtBlock(config) for _ in range(config.blocks))

    def slow_parts(self) -> Iterable[tuple[nn.Module, float]]:
        """Return a pretrained image encoder with its share of the learning rate."""
        return self.image_encoder.pretrained_parts()

    def heavy_parts(self) -> Iterable[nn.Module]:
        """Return the blocks and a pretrained image encoder."""
        return [*self.blocks, *(part for part, _ in self.slow_parts())]

    def conditions(self, observation: Observation) -> Conditions:
        """Encode what does not depend on the noised action."""
        batch, device = len(observation.proprio_BKP), observation.proprio_BKP.device
        proprio = (observation.proprio_BKP, observation.proprio_mask_BK, observation.arm_valid_BKA)
        state = self.state_adaptors(observation.embodiments, *proprio)
        prompts, rate = observation.prompts, self.config.condition_dropout
        if self.training and rate > 0:
            lost_state = torch.rand(batch, 1, 1, device=device) < rate
            state = torch.where(lost_state, self.null_state_KE.to(state.dtype), state)
            lost_prompt = (torch.rand(batch) < rate).tolist()
            prompts = ["" if lost else prompt for prompt, lost in zip(prompts, lost_prompt, strict=True)]
        features, are_words = self.text_encoder(prompts)
        words = self.language_adaptor(features) + self.word_position_LE[: features.shape[1]]
        images_BIME, keep_BI = self._images(observation)
        summary = self._summary(state, images_BIME, seen_cameras(observation, self.dims))
        images, are_images = images_BIME.flatten(1, 2), keep_BI.repeat_interleave(self.image_encoder.tokens, 1)
        return Conditions(self.frequency(observation.fps_B), state, words, are_words, images, are_images, summary)

    def _images(self, observation: Observation) -> tuple[Tensor, Tensor]:
        tokens, keep = [], []
        positions = self.image_position.unflatten(0, (-1, self.dims.images))
        for camera in seen_cameras(observation, self.dims):
            images_BN3HW = observation.images[camera]
            encoded = self.image_encoder(images_BN3HW.flatten(0, 1))
            placed = self.image_adaptor(encoded).unflatten(0, images_BN3HW.shape[:2]) + positions[self.dims.cameras.index(camera)]
            tokens.append(placed)
            keep.append(self._kept_images(observation.image_mask[camera]))
        return torch.cat(tokens, 1), torch.cat(keep, 1)

    def _summary(self, state_BKE: Tensor, images_BIME: Tensor, cameras: Sequence[str]) -> Tensor:
        """Put the state history and the tokens that stand for each camera's current image into one vector; 0 for cameras not there."""
        if self.summary is None:
            return torch.zeros_like(state_BKE[:, 0])
        count, cells = self.dims.images, self.image_encoder.tokens - self.image_encoder.direct
        direct_BCE = images_BIME[:, count - 1 :: count, cells:].flatten(2)
        none = torch.zeros_like(direct_BCE[:, 0])
        direct = [direct_BCE[:, cameras.index(camera)] if camera in cameras else none for camera in self.dims.cameras]
        return self.summary(torch.cat([state_BKE.flatten(1), *direct], 1))

    def _kept_images(self, mask_BN: Tensor) -> Tensor:
        """Return which images count: those recorded, earlier ones dropped at times; the current one always, recorded or black."""
        current = torch.arange(mask_BN.shape[1], device=mask_BN.device) == mask_BN.shape[1] - 1
        if self.training and self.config.history_dropout > 0:
            mask_BN = mask_BN & (torch.rand(len(mask_BN), 1, device=mask_BN.device) >= self.config.history_dropout)
        return mask_BN | current

    def loss(self, observation: Observation, action_BSD: Tensor, *, mask_BSD: Tensor, generator: Generator) -> Tensor:
        """Loss of the objective over the cells in the mask, averaged over the draws."""
        draws = self.config.objective.draws
        network = partial(
            self._network, [n for n in observation.embodiments for _ in range(draws)], self.conditions(observation).repeated(draws)
        )
        action, mask = action_BSD.repeat_interleave(draws, 0), mask_BSD.repeat_interleave(draws, 0)
        return objective_loss(self.config.objective, network, action_BSD=action, mask_BSD=mask, generator=generator)

    def predict(self, observation: Observation, *, noise_BSD: Tensor) -> Tensor:
        """Turn the noise given into actions."""
        network = partial(self._network, observation.embodiments, self.conditions(observation))
        return sampled(self.config.objective, network, noise_BSD=noise_BSD)

    def _network(self, names: Sequence[str], seen: Conditions, noised_BSD: Tensor, time_B: Tensor) -> Tensor:
        time_BE = self.time(time_B * TIME_RANGE)
        chunk = self.actions_in(names, noised_BSD) + seen.summary_BE[:, None]
        x_BLE = torch.cat([torch.stack([time_BE, seen.fps_BE], 1), seen.state_BKE, chunk], 1) + self.position_LE
        for i, block in enumerate(self.blocks):
            if i % 2:
                x_BLE = block(x_BLE, seen.images_BME, seen.are_images_BM)
            else:
                x_BLE = block(x_BLE, seen.words_BME, seen.are_words_BM)
        return self.actions_out(names, x_BLE[:, -chunk.shape[1] :], noised_BSD, time_BE)

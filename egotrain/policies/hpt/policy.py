"""The whole HPT. Suffixes as in `policies.base`; R flow draws per sample."""

from functools import partial

import torch
from torch import Generator, Tensor, nn

from egotrain.policies.base import Observation, Policy
from egotrain.policies.dims import PolicyDims
from egotrain.policies.flow import flow_loss, integrate
from egotrain.policies.hpt.action_head import ActionHead
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.hpt.image_stem import ImageStem
from egotrain.policies.hpt.stems import ProprioStem, TextStem
from egotrain.policies.layers import Block


class HptPolicy(Policy):
    """Stems for cameras, proprio and language; a trunk over all their tokens and learned action tokens; a flow-matching head."""

    def __init__(self, config: HptConfig, dims: PolicyDims) -> None:
        super().__init__()
        self.config, self.dims = config, dims
        self.image_stems = nn.ModuleDict({camera: ImageStem(config, dims) for camera in dims.cameras})
        self.proprio_stem = ProprioStem(config, dims)
        self.text_stem = TextStem(config)
        self.action_tokens_LE = nn.Parameter(torch.randn(config.action_tokens, config.width) * 0.02)
        names = [*dims.cameras, "proprio", "text", "action"]
        self.modality = nn.ParameterDict({name: nn.Parameter(torch.randn(config.width) * 0.02) for name in names})
        rates = torch.linspace(0, config.drop_path, config.blocks).tolist()
        self.trunk = nn.ModuleList(Block(config.width, heads=config.heads, mlp_ratio=config.mlp_ratio, drop_path=rate) for rate in rates)
        self.trunk_norm = nn.LayerNorm(config.width)
        self.action_head = ActionHead(config, dims)

    def encode(self, observation: Observation) -> Tensor:
        """Run stems and trunk; return the action tokens (B, L, E) that the head attends to."""
        batch = len(observation.proprio_BKP)
        tokens, keep = [], []

        def add(name: str, latents_BLE: Tensor, *, droppable: bool) -> None:
            tokens.append(latents_BLE + self.modality[name])
            kept_B = torch.ones(batch, dtype=torch.bool, device=latents_BLE.device)
            if droppable and self.training and self.config.modality_dropout > 0:
                kept_B = torch.rand(batch, device=latents_BLE.device) >= self.config.modality_dropout
            keep.append(kept_B[:, None].expand(-1, latents_BLE.shape[1]))

        for camera, stem in self.image_stems.items():
            add(camera, stem(observation.images[camera], observation.image_mask[camera]), droppable=True)
        body = self.proprio_stem(observation.proprio_BKP, observation.proprio_mask_BK, observation.arm_valid_BKA)
        add("proprio", body, droppable=False)
        add("text", self.text_stem(observation.prompts), droppable=True)
        add("action", self.action_tokens_LE.expand(batch, -1, -1), droppable=False)
        x_BLE, keep_BL = torch.cat(tokens, 1), torch.cat(keep, 1)
        for block in self.trunk:
            x_BLE = block(x_BLE, keep_BL if self.training else None)
        return self.trunk_norm(x_BLE[:, -self.config.action_tokens :])

    def loss(self, observation: Observation, action_BSD: Tensor, *, mask_BSD: Tensor, generator: Generator) -> Tensor:
        """Flow-matching loss over the cells in the mask, averaged over the draws."""
        draws = self.config.flow_draws
        context = self.encode(observation).repeat_interleave(draws, 0)
        velocity = partial(self._velocity, context)
        action, mask = action_BSD.repeat_interleave(draws, 0), mask_BSD.repeat_interleave(draws, 0)
        return flow_loss(velocity, action, mask_BSD=mask, generator=generator)

    def predict(self, observation: Observation, *, noise_BSD: Tensor) -> Tensor:
        """Integrate from the noise given."""
        return integrate(partial(self._velocity, self.encode(observation)), noise_BSD, steps=self.config.flow_steps)

    def _velocity(self, context_BLE: Tensor, noised_BSD: Tensor, time_B: Tensor) -> Tensor:
        return self.action_head(noised_BSD, time_B, context_BLE)

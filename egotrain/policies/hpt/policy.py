"""The whole HPT. Suffixes as in `policies.base`; R noise draws per sample."""

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Generator, Tensor, nn

from egotrain.policies.base import Observation, Policy, seen_cameras
from egotrain.policies.bodies import PerBody
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.images import ImageEncoder, image_encoder
from egotrain.policies.encoders.text import text_encoder
from egotrain.policies.hpt.action_head import ActionHead, HeadLayer
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.hpt.stems import ImageStem, ProprioStem, Stem
from egotrain.policies.layers import Block
from egotrain.policies.objective import objective_loss, sampled


class HptPolicy(Policy):
    """Stems for cameras, proprio and language; a trunk over all their tokens and learned action tokens; an action head.

    Proprio stems and action heads are one per embodiment, image stems one per camera; the rest is shared. A camera that the bodies of a
    batch do not have gives no tokens.
    """

    def __init__(self, config: HptConfig, dims: PolicyDims) -> None:
        super().__init__()
        self.config, self.dims = config, dims
        self.image_encoders = nn.ModuleDict({camera: image_encoder(config.images, dims) for camera in dims.cameras})
        self.image_stems = nn.ModuleDict({camera: ImageStem(config, dims) for camera in dims.cameras})
        self.proprio_stems = PerBody(dims, lambda body: ProprioStem(config, dims, body))
        self.text_encoder = text_encoder(config.text)
        self.text_stem = Stem(config, self.text_encoder.width, layers=1, latents=config.text_latents)
        self.action_tokens_LE = nn.Parameter(torch.randn(config.action_tokens, config.width) * 0.02)
        names = [*dims.cameras, "proprio", "text", "action"]
        self.modality = nn.ParameterDict({name: nn.Parameter(torch.randn(config.width) * 0.02) for name in names})
        rates = [config.drop_path * i / max(1, config.blocks - 1) for i in range(config.blocks)]
        self.trunk = nn.ModuleList(Block(config.width, heads=config.heads, mlp_ratio=config.mlp_ratio, drop_path=rate) for rate in rates)
        self.trunk_norm = nn.LayerNorm(config.width)
        self.action_heads = PerBody(dims, lambda body: ActionHead(config, dims, body))

    def slow_parts(self) -> Iterable[tuple[nn.Module, float]]:
        """Return pretrained image encoders with their share of the learning rate."""
        encoders = [encoder for encoder in self.image_encoders.values() if isinstance(encoder, ImageEncoder)]
        return [part for encoder in encoders for part in encoder.pretrained_parts()]

    def heavy_parts(self) -> Iterable[nn.Module]:
        """Return trunk blocks, layers of the action heads, and pretrained image encoders."""
        layers = [part for part in self.action_heads.modules() if isinstance(part, HeadLayer)]
        return [*self.trunk, *layers, *(part for part, _ in self.slow_parts())]

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

        for camera in seen_cameras(observation, self.dims):
            add(camera, self._camera(camera, observation), droppable=True)
        proprio = (observation.proprio_BKP, observation.proprio_mask_BK, observation.arm_valid_BKA)
        add("proprio", self.proprio_stems(observation.embodiments, *proprio), droppable=False)
        words, are_words = self.text_encoder(observation.prompts)
        add("text", self.text_stem(words, keep_BM=are_words), droppable=True)
        add("action", self.action_tokens_LE.expand(batch, -1, -1), droppable=False)
        x_BLE, keep_BL = torch.cat(tokens, 1), torch.cat(keep, 1)
        mask = keep_BL if self.training and self.config.modality_dropout > 0 else None
        for block in self.trunk:
            x_BLE = block(x_BLE, mask)
        return self.trunk_norm(x_BLE[:, -self.config.action_tokens :])

    def _camera(self, camera: str, observation: Observation) -> Tensor:
        images_BN3HW, encoder = observation.images[camera], self.image_encoders[camera]
        tokens = encoder(images_BN3HW.flatten(0, 1)).unflatten(0, images_BN3HW.shape[:2])
        return self.image_stems[camera](tokens, observation.image_mask[camera], direct=encoder.direct)

    def loss(self, observation: Observation, action_BSD: Tensor, *, mask_BSD: Tensor, generator: Generator) -> Tensor:
        """Loss of the objective over the cells in the mask, averaged over the draws."""
        draws = self.config.objective.draws
        context = self.encode(observation).repeat_interleave(draws, 0)
        names = [name for name in observation.embodiments for _ in range(draws)]
        action, mask = action_BSD.repeat_interleave(draws, 0), mask_BSD.repeat_interleave(draws, 0)
        network = partial(self._network, names, context)
        return objective_loss(self.config.objective, network, action_BSD=action, mask_BSD=mask, generator=generator)

    def predict(self, observation: Observation, *, noise_BSD: Tensor) -> Tensor:
        """Turn the noise given into actions."""
        network = partial(self._network, observation.embodiments, self.encode(observation))
        return sampled(self.config.objective, network, noise_BSD=noise_BSD)

    def _network(self, names: Sequence[str], context_BLE: Tensor, noised_BSD: Tensor, time_B: Tensor) -> Tensor:
        return self.action_heads(names, noised_BSD, time_B, context_BLE)

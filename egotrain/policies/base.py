"""What every policy is: it takes an observation, and learns or predicts a chunk of actions.

Shape suffixes here and in all policies:
B batch, N images of a camera, H height, W width, K proprio history steps, P proprio channels, A arms,
S action steps, D action channels, E width of tokens, L tokens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Generator, Tensor, nn

from egodata.errors import SampleError
from egotrain.policies.dims import PolicyDims


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees of B samples; normalised, without NaN.

    Attributes:
        images: By camera of the bodies in the batch, (B, N, 3, H, W) float, ImageNet mean and standard deviation taken out, oldest first.
        image_mask: By camera, (B, N) bool; frames that were recorded.
        proprio_BKP: Oldest step first; 0 where the arm was not measured.
        proprio_mask_BK: Steps inside the episode.
        arm_valid_BKA: Arms measured at that step.
        prompts: One text per sample; empty where there is none.
        fps_B: Frames per second.
        embodiments: Name of the body of each sample; empty where the policy has one body only.
    """

    images: Mapping[str, Tensor]
    image_mask: Mapping[str, Tensor]
    proprio_BKP: Tensor
    proprio_mask_BK: Tensor
    arm_valid_BKA: Tensor
    prompts: Sequence[str]
    fps_B: Tensor
    embodiments: Sequence[str] = ()


def seen_cameras(observation: Observation, dims: PolicyDims) -> tuple[str, ...]:
    """Return the cameras of an observation in the policy's order.

    Raises:
        SampleError: They are not those of its bodies.
    """
    wanted = dims.cameras_of(observation.embodiments)
    if set(observation.images) != set(wanted):
        raise SampleError(f"policy: images of {', '.join(sorted(observation.images)) or 'no camera'}, expected {', '.join(wanted)}")
    return wanted


class Policy(nn.Module):
    """The protocol: a module with `loss` and `predict`. Noise comes in from outside, so that nothing depends on a global state.

    Dropout is the one exception: torch knows no generator for it, so whoever trains seeds torch around `loss`.
    """

    def loss(self, observation: Observation, action_BSD: Tensor, *, mask_BSD: Tensor, generator: Generator) -> Tensor:
        """Return the scalar loss over the cells in the mask.

        Args:
            observation: What the policy sees.
            action_BSD: Normalised actions, finite everywhere.
            mask_BSD: Cells that count.
            generator: Source of noise and flow time, on the CPU.
        """
        raise NotImplementedError

    def predict(self, observation: Observation, *, noise_BSD: Tensor) -> Tensor:
        """Return normalised actions (B, S, D), a pure function of the observation and the noise."""
        raise NotImplementedError

    def slow_parts(self) -> Iterable[tuple[nn.Module, float]]:
        """Return parts with a share of the learning rate of their own, such as a pretrained encoder; none by default."""
        return ()

    def heavy_parts(self) -> Iterable[nn.Module]:
        """Return the parts that are worth compiling: tensors in, tensors out, no text; none by default."""
        return ()

"""A policy as a folder that needs torch and nothing of ours: one exported program, one JSON file about it, one worked example.

The program holds everything between raw numbers and raw numbers: resizing and normalising of images, normalising of proprio, the
policy's own integration from noise, and the way back to metres. Texts are turned into numbers by code, which the folder does not hold:
so the prompts are chosen when it is made, their features are part of the program, and an input says which one holds.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from egodata.errors import ConfigError, ConflictError, InputError
from egodata.names import nearest
from egodata.schema.layout import write_atomic
from egodata.stats import Mode
from egodata.torch import images_to_device
from egotrain.checkpoint import Carried, CarriedPart, load_checkpoint
from egotrain.evaluate import restored
from egotrain.policies.base import Observation, Policy
from egotrain.policies.dims import PolicyDims

PROGRAM, ABOUT, EXAMPLE = "policy.pt2", "policy.json", "example.npz"
EXPORT_SCHEMA = 2
"""Schema 1 had one prompt and no input for it."""
TOLERANCE = 1e-4
README = """# An exported policy

`policy.pt2` is a program of `torch.export`; it needs torch {torch} or a later one that reads its programs, and nothing else.
`policy.json` says what goes in and what comes out; the input `prompt` is the position of a text in its `prompts`. `example.npz` holds
one set of inputs and the actions that came out.

```python
import json, numpy as np, torch

about = json.load(open("policy.json"))
policy = torch.export.load("policy.pt2").module()
example = np.load("example.npz")
inputs = [torch.from_numpy(example[name]) for name in about["inputs"]]
with torch.inference_mode():
    actions = policy(*inputs)
print(abs(actions.numpy() - example["actions"]).max())
```
"""


class ChosenPrompts(nn.Module):
    """Stands in for a text encoder: features of prompts chosen beforehand, by position."""

    def __init__(self, encoder: nn.Module, prompts: Sequence[str]) -> None:
        """Encode the prompts."""
        super().__init__()
        features, are_words = encoder(list(prompts))
        self.register_buffer("features", features.detach().clone())
        self.register_buffer("are_words", are_words.clone())

    def forward(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (B, L, width) and which count, for positions (B,)."""
        buffers = dict(self.named_buffers())
        return buffers["features"][chosen], buffers["are_words"][chosen]


@dataclass(frozen=True, slots=True)
class Body:
    """The embodiment that is exported.

    Attributes:
        name: Of it.
        part: Its recipe and statistics.
        dims: Sizes of its numbers and its cameras.
        normalisation: How its numbers are scaled.
    """

    name: str
    part: CarriedPart
    dims: PolicyDims
    normalisation: Mode


class Exported(nn.Module):
    """What is exported: raw observation and noise in, raw actions out."""

    def __init__(self, policy: Policy, body: Body, *, prompts: Sequence[str]) -> None:
        """Join a policy, whose text encoder is replaced, and the statistics of one of its embodiments."""
        super().__init__()
        self.policy = policy.eval()
        with torch.no_grad():
            self.policy.text_encoder = ChosenPrompts(policy.get_submodule("text_encoder"), prompts)
        self.dims = body.dims
        self.embodiment = body.name
        found = body.part.stats.normalisers(body.normalisation)
        for part in ("action", "proprio"):
            for name in ("offset", "gain", "back", "shift"):
                self.register_buffer(f"{part}_{name}", torch.from_numpy(np.array(getattr(found[part], name), np.float64)))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Predict; inputs in the order of `input_names`.

        Images are (1, N, H, W, 3) uint8, prompt (1,) int64, a position among the chosen ones, proprio (1, K, P) float32,
        proprio_mask (1, K) bool, arm_valid (1, K, A) bool, fps (1,) float32, noise (1, S, D) float32.
        Returns (1, S, D) float32, not normalised.
        """
        cameras, buffers = self.dims.cameras, dict(self.named_buffers())
        images, (prompt, proprio, proprio_mask, arm_valid, fps, noise) = inputs[: len(cameras)], inputs[len(cameras) :]
        size = (self.dims.image_height, self.dims.image_width)
        seen = {camera: images_to_device(image, device=noise.device, size=size) for camera, image in zip(cameras, images, strict=True)}
        each = proprio.shape[-1] // arm_valid.shape[-1]
        valid = arm_valid.repeat_interleave(each, dim=-1)
        scaled = (proprio.double() - buffers["proprio_offset"]) * buffers["proprio_gain"] + buffers["proprio_shift"]
        observation = Observation(
            images=seen,
            image_mask={camera: torch.ones(1, self.dims.images, dtype=torch.bool, device=noise.device) for camera in cameras},
            proprio_BKP=torch.where(valid, scaled, torch.zeros_like(scaled)).float(),
            proprio_mask_BK=proprio_mask,
            arm_valid_BKA=arm_valid,
            prompts=cast(Any, prompt),  # what `ChosenPrompts` takes
            fps_B=fps,
            embodiments=[self.embodiment],
        )
        chunk = self.policy.predict(observation, noise_BSD=noise)
        return ((chunk.double() - buffers["action_shift"]) * buffers["action_back"] + buffers["action_offset"]).float()


def input_names(cameras: Sequence[str]) -> list[str]:
    """Return the inputs in order."""
    return [*(f"images.{camera}" for camera in cameras), "prompt", "proprio", "proprio_mask", "arm_valid", "fps", "noise"]


def _body(carried: Carried, embodiment: str) -> Body:
    known = list(dict.fromkeys(name for part in carried.parts for name in part.recipe.embodiments))
    if not embodiment and len(known) > 1:
        raise ConfigError(f"export: the policy was trained on several embodiments. Choose one: --embodiment {' or '.join(known)}")
    name = embodiment or known[0]
    if name not in known:
        raise ConfigError(f"export: the policy was not trained on embodiment {name!r}; {nearest(name, known)}")
    return Body(name, carried.part_for(name), carried.dims.only([name]), carried.config.data.normalisation)


def export(
    checkpoint: Path, out: Path, *, prompts: Sequence[str] = ("",), embodiment: str = "", image_size: tuple[int, int] | None = None
) -> Path:
    """Write a self-contained folder and check that its program gives what the policy gives.

    Args:
        checkpoint: The file.
        out: Folder to make; it must not be there yet.
        prompts: The texts that the policy can be given.
        embodiment: Which body it is for; may be empty where the policy was trained on one.
        image_size: (height, width) of the images that will come in; None for the size that the policy sees.

    Raises:
        ConflictError: `out` exists.
        InputError: The checkpoint cannot be read, or a prompt is given twice or none at all.
        ConfigError: The policy cannot be exported, or the program gives other actions; no such embodiment, or none named among several.
    """
    if out.exists():
        raise ConflictError(f"export {out}: exists. Choose another folder.")
    if not prompts or len(set(prompts)) != len(prompts):
        raise InputError(f"export: expected different prompts, at least one, got {list(prompts)}")
    carried = load_checkpoint(checkpoint)
    config = replace(carried.config, trainer=replace(carried.config.trainer, compile=False, accelerator="cpu"))
    body = _body(carried, embodiment)
    module = Exported(restored(carried, config=config).policy, body, prompts=prompts)
    inputs = _example_inputs(body, image_size or (body.dims.image_height, body.dims.image_width))
    with torch.inference_mode(False), torch.no_grad():
        expected = module(*inputs)
        try:
            program = torch.export.export(module, inputs)
        except Exception as error:  # whatever a policy's code makes the exporter fail with
            text = " ".join(str(error).split())[:200]
            raise ConfigError(f"export of policy {carried.config.policy.name}: not exportable ({type(error).__name__}: {text})") from error
        got = program.module()(*inputs)
    apart = float((got - expected).abs().max())
    if not apart <= TOLERANCE:
        raise ConfigError(f"export of policy {carried.config.policy.name}: its program is {apart:g} apart, expected {TOLERANCE:g} at most")
    out.mkdir(parents=True)
    torch.export.save(program, out / PROGRAM)
    names = input_names(body.dims.cameras)
    arrays = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    np.savez_compressed(out / EXAMPLE, **arrays, actions=expected.numpy())  # type: ignore[arg-type]
    write_atomic(out / "README.md", README.format(torch=torch.__version__.partition("+")[0]).encode())
    about = {**_about(carried, body, names, inputs), "prompts": list(prompts)}
    write_atomic(out / ABOUT, json.dumps(about, indent=1, sort_keys=True).encode() + b"\n")
    return out


def _example_inputs(body: Body, image_size: tuple[int, int]) -> tuple[Tensor, ...]:
    """Draw inputs of the right shapes; numbers around what the statistics say is usual."""
    dims, source = body.dims, torch.Generator().manual_seed(0)
    images = [torch.randint(0, 256, (1, dims.images, *image_size, 3), generator=source, dtype=torch.uint8) for _ in dims.cameras]
    mean = np.nan_to_num(np.asarray(body.part.stats.features["proprio"].fields["median"], np.float32))
    proprio = torch.from_numpy(np.broadcast_to(mean, (1, dims.proprio_history, dims.proprio_dim)).copy())
    noise = torch.randn(1, dims.action_steps, dims.action_dim, generator=source)
    masks = torch.ones(1, dims.proprio_history, dtype=torch.bool), torch.ones(1, dims.proprio_history, dims.arms, dtype=torch.bool)
    return (*images, torch.zeros(1, dtype=torch.int64), proprio, *masks, torch.tensor([30.0]), noise)


def _about(carried: Carried, body: Body, names: Sequence[str], inputs: Sequence[Tensor]) -> dict[str, Any]:
    dims, part = body.dims, body.part
    return {
        "schema": EXPORT_SCHEMA,
        "policy": carried.config.policy.name,
        "step": carried.step,
        "embodiment": body.name,
        "datasets": [dict(one.dataset) for one in carried.parts if body.name in one.recipe.embodiments],
        "stats_key": part.stats.key,
        "revision": carried.revision,
        "torch": torch.__version__,
        "inputs": list(names),
        "shapes": {
            name: {"shape": list(x.shape), "dtype": str(x.dtype).removeprefix("torch.")} for name, x in zip(names, inputs, strict=True)
        },
        "output": {"shape": [1, dims.action_steps, dims.action_dim], "dtype": "float32", "unit": "as the recipe says"},
        "channels": {"action": list(part.stats.features["action"].names), "proprio": list(part.stats.features["proprio"].names)},
        "recipe": part.recipe.to_json(),
    }

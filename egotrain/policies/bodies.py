"""One part per embodiment, kept by name, so that adding a body never moves the weights of another. Suffixes as in `base`."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from egodata.errors import SampleError
from egodata.names import nearest
from egotrain.policies.dims import DEFAULT_BODY, BodyDims, PolicyDims


def fitted(x: Tensor, width: int) -> Tensor:
    """Cut (..., D) to its first channels, or fill it up with zeros, to (..., width)."""
    return x[..., :width] if x.shape[-1] >= width else F.pad(x, (0, width - x.shape[-1]))


class PerBody(nn.Module):
    """A module per embodiment; each sample goes through that of its own body."""

    def __init__(self, dims: PolicyDims, make: Callable[[BodyDims], nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({body.name: make(body) for body in dims.all_bodies})

    def forward(self, names: Sequence[str], *tensors: Tensor) -> Tensor:
        """Map tensors with a batch axis to one; all bodies give the same shape.

        Args:
            names: Of the body of each sample; may be empty where there is one.
            tensors: Arguments of the parts.

        Raises:
            SampleError: A body that the policy was not built for, or none named where there are several.
        """
        present = dict.fromkeys(names)
        if not present and len(self.parts) > 1:
            raise SampleError(f"policy: samples without an embodiment, expected one of {', '.join(self.parts)} for each")
        if len(self.parts) == 1 and (not present or DEFAULT_BODY in self.parts):
            return next(iter(self.parts.values()))(*tensors)
        for name in present:
            if name not in self.parts:
                raise SampleError(f"policy: no part for embodiment {name!r}; {nearest(name, list(self.parts))}")
        if len(present) == 1:
            return self.parts[next(iter(present))](*tensors)
        rows = [torch.tensor([i for i, name in enumerate(names) if name == one], device=tensors[0].device) for one in present]
        done = [self.parts[one](*(tensor[at] for tensor in tensors)) for one, at in zip(present, rows, strict=True)]
        return torch.cat(done)[torch.cat(rows).argsort()]

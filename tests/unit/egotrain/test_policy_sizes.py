"""Trainable parameters at the reference sizes, in millions, counted without allocating a weight."""

import pytest
import torch

from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders import architectures
from egotrain.policies.registry import build_policy
from tests.unit.egotrain.policy_help import config_of

REFERENCE = {
    "hpt": (
        298.1,
        PolicyDims(100, 18, 3, 20, 2, ("front_1",), 1, 360, 640),
        {
            ("trunk", "trunk_norm"): 195.0,
            ("action_heads",): 74.2,
            ("image_encoders",): 11.6,
            ("image_stems",): 6.1,
            ("text_stem",): 5.6,
            ("proprio_stems",): 5.4,
        },
    ),
    "rdt": (
        392.7,
        PolicyDims(100, 18, 3, 20, 2, ("front_1",), 2, 224, 400),
        {("blocks",): 294.0, ("image_encoder",): 85.7},
    ),
}
NEARLY = 0.02


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_sizes_are_met_in_total_and_per_part(name, monkeypatch):
    monkeypatch.setattr(architectures, "_here", lambda source: False)
    total, dims, parts = REFERENCE[name]
    with torch.device("meta"):
        policy = build_policy(config_of(f"policy={name}").policy, dims)
    assert {parameter.device.type for parameter in policy.parameters()} == {"meta"}

    def millions(prefixes):
        trainable = (parameter for key, parameter in policy.named_parameters() if parameter.requires_grad and key.split(".")[0] in prefixes)
        return sum(parameter.numel() for parameter in trainable) / 1e6

    everything = {key.split(".")[0] for key, _ in policy.named_parameters()}
    assert millions(everything) == pytest.approx(total, rel=NEARLY)
    found = {part: millions(part) for part in parts}
    assert found == {part: pytest.approx(wanted, rel=NEARLY) for part, wanted in parts.items()}
    rest = everything.difference(*parts)
    assert millions(rest) == pytest.approx(total - sum(parts.values()), abs=NEARLY * total / 10), "adaptors and embeddings"
    assert not any(parameter.requires_grad for key, parameter in policy.named_parameters() if key.startswith("text_encoder"))


def test_images_of_the_reference_give_the_reference_number_of_tokens():
    for name, tokens in (("hpt", 12 * 20), ("rdt", 350)):
        with torch.device("meta"):
            policy = build_policy(config_of(f"policy={name}").policy, REFERENCE[name][1])
        encoder = policy.image_encoder if name == "rdt" else policy.image_encoders["front_1"]
        assert encoder.tokens == tokens

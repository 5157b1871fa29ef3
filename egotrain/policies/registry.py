"""Build a policy from its config: one case per policy."""

from egodata.errors import ConfigError
from egotrain.policies.base import Policy
from egotrain.policies.config import PolicyConfig, check_policy
from egotrain.policies.dims import PolicyDims
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.rdt.config import RdtConfig

__all__ = ["PolicyConfig", "build_policy", "check_policy"]


def build_policy(config: PolicyConfig, dims: PolicyDims, *, pretrained: bool = False) -> Policy:
    """Build a policy for the sizes of a dataset.

    Args:
        config: Which policy.
        dims: Sizes of the data.
        pretrained: Whether to load the weights of pretrained encoders, as a run does when it starts; not so when a checkpoint follows.

    Raises:
        ConfigError: The config is of no known policy, or an encoder does not take the images.
        NotFoundError: An encoder is not on this machine.
        InputError: An encoder's files are incomplete.
    """
    match config:
        case HptConfig():
            from egotrain.policies.hpt.policy import HptPolicy

            policy: Policy = HptPolicy(config, dims)
        case RdtConfig():
            from egotrain.policies.rdt.policy import RdtPolicy

            policy = RdtPolicy(config, dims)
        case _:
            raise ConfigError(f"policy config {type(config).__name__}: no such policy. Add a case to egotrain/policies/registry.py.")
    if pretrained:
        from egotrain.policies.encoders.pretrained import load_pretrained

        load_pretrained(policy)
    return policy

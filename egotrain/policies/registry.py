"""Build a policy from its config: one case per policy."""

from egodata.errors import ConfigError
from egotrain.policies.base import Policy
from egotrain.policies.dims import PolicyDims
from egotrain.policies.hpt.config import HptConfig, check_hpt

PolicyConfig = HptConfig


def check_policy(config: PolicyConfig, dims: PolicyDims) -> None:
    """Refuse sizes that a policy cannot take, before anything is built.

    Raises:
        ConfigError: Naming what does not fit.
    """
    match config:
        case HptConfig():
            check_hpt(config, dims)


def build_policy(config: PolicyConfig, dims: PolicyDims) -> Policy:
    """Build a policy with fresh weights for the sizes of a dataset.

    Raises:
        ConfigError: The config is of no known policy.
    """
    match config:
        case HptConfig():
            from egotrain.policies.hpt.policy import HptPolicy

            return HptPolicy(config, dims)
        case _:
            raise ConfigError(f"policy config {type(config).__name__}: no such policy. Add a case to egotrain/policies/registry.py.")

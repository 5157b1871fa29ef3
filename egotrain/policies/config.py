"""The configs of all policies; the trainer takes any of them. No torch here."""

from egotrain.policies.dims import PolicyDims
from egotrain.policies.hpt.config import HptConfig, check_hpt
from egotrain.policies.rdt.config import RdtConfig, check_rdt

PolicyConfig = HptConfig | RdtConfig


def check_policy(config: PolicyConfig, dims: PolicyDims) -> None:
    """Refuse sizes that a policy cannot take, before anything is built.

    Raises:
        ConfigError: Naming what does not fit.
    """
    match config:
        case HptConfig():
            check_hpt(config, dims)
        case RdtConfig():
            check_rdt(config, dims)

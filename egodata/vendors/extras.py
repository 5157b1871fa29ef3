"""Libraries that only some vendors' files need."""

from importlib import import_module
from typing import Any

from egodata.errors import MissingExtraError


def require(module: str, *, extra: str, vendor: str) -> Any:
    """Import an optional library.

    Args:
        module: Name to import.
        extra: Extra of this distribution that installs it.
        vendor: Whose files need it.

    Raises:
        MissingExtraError: It is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"vendor {vendor}: its files need the library {module.replace('_', '-')}, which is not installed. "
            f"Install it with pip install 'egodata[{extra}]'."
        ) from error

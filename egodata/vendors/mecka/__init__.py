"""Mecka: human hands seen by a moving head camera. docs/vendors/mecka.md has the rules."""

from egodata.vendors.mecka.vendor import VENDOR

__all__ = ["VENDOR"]

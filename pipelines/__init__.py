"""Dagster code location and the `egopipe` command: datasets as assets that people materialise, check and trace."""

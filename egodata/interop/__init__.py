"""Frozen datasets in layouts that other projects' loaders read."""

from egodata.interop.lerobot import LEROBOT_STORAGE, Exported, ExportOptions, export_lerobot

__all__ = ["LEROBOT_STORAGE", "ExportOptions", "Exported", "export_lerobot"]

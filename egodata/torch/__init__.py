"""Samples as torch tensors: a dataset, a loader whose order is a pure function, images on their device, prompts as tokens."""

from egodata.torch.collate import Batch, collate
from egodata.torch.dataset import SourcesDataset
from egodata.torch.device import batch_to_device
from egodata.torch.images import images_to_device
from egodata.torch.jitter import ColourJitter
from egodata.torch.loader import HeadLoader, Loading, make_loader
from egodata.torch.prompts import PromptTokenizer, PromptTokens

__all__ = [
    "Batch",
    "ColourJitter",
    "HeadLoader",
    "Loading",
    "PromptTokenizer",
    "PromptTokens",
    "SourcesDataset",
    "batch_to_device",
    "collate",
    "images_to_device",
    "make_loader",
]

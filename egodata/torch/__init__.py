"""Samples as torch tensors: a dataset, a loader whose order is a pure function, and images on their device."""

from egodata.torch.collate import Batch, collate
from egodata.torch.dataset import HeadDataset, SourcesDataset
from egodata.torch.images import images_to_device
from egodata.torch.loader import HeadLoader, Loading, make_loader

__all__ = ["Batch", "HeadDataset", "HeadLoader", "Loading", "SourcesDataset", "collate", "images_to_device", "make_loader"]

"""Reads a head through two workers, with an address-space limit and whatever /dev/shm there is; prints what came, or the error."""

import resource
import sys
from pathlib import Path

from egodata.catalog import load_dataset
from egodata.errors import EgodataError
from egodata.sampling import HeadSource, load_recipe
from egodata.schema.layout import open_root
from egodata.torch import make_loader


def main(store: str, format: str, batch_size: int) -> None:
    limit = 6 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    paths = open_root(Path(store))
    source = HeadSource.open(paths, load_dataset(paths, "tiny@v1"), head="train", recipe=load_recipe("human_wrist6d"), format=format)
    try:
        loader = make_loader(source, batch_size=batch_size, num_workers=2, drop_last=False)
        print("read", sum(len(batch["episode_id"]) for batch in loader), "of", len(source))
    except EgodataError as error:
        print("error", error)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""How fast is a parity check, and what do further processes bring?

    python benchmarks/parity_speed.py STORE [--workers 1 2]

Content level of all episodes of a store that has both formats, in turn: 64 frames decoded in all, then every frame. Seconds, episodes and
megapixels per second; each is a fresh check (nothing is taken over from an interrupted one). The page cache is warm.
"""

import argparse
import time
from pathlib import Path

from egodata.formats import open_store
from egodata.parity import ParityConfig, check_parity
from egodata.schema.layout import open_root


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    paths = open_root(args.store)
    reader = open_store(paths, "zarr").open(open_store(paths, "zarr").episode_ids()[0])
    info = reader.video_info(reader.meta.cameras[0])
    check_parity(paths, samples=1)
    for samples in (64, None):
        for workers in args.workers:
            start = time.perf_counter()
            report = check_parity(paths, samples=samples, config=ParityConfig(workers=workers, fresh=True))
            spent = time.perf_counter() - start
            counts = report.levels[1].outcome.counts
            megapixels = counts["frames_decoded"] * info.width * info.height / 1e6
            print(
                f"frames {counts['frames_decoded']:6}  workers {workers}  {spent:6.1f} s  {counts['episodes'] / spent:6.1f} episodes/s  "
                f"{megapixels / spent:6.1f} megapixels/s  {report.verdict}"
            )


if __name__ == "__main__":
    main()

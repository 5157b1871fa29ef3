"""CPU time of reading an AV1 file through torchcodec, in its own environment (`make bench-env-codec`): run by store_video.py.

Reads {"path", "one", "window", "sequential"} as JSON on stdin, prints {"one", "window", "sequential"} in CPU ms per request and per frame.
"""

import json
import sys
import time

import torch
import torchcodec
from torchcodec.decoders import VideoDecoder


def cpu_ms(decoder: VideoDecoder, requests: list[list[int]]) -> float:
    decoder.get_frames_at(requests[0])
    start = time.process_time()
    for request in requests:
        decoder.get_frames_at(request)
    return (time.process_time() - start) / len(requests) * 1e3


def main() -> None:
    asked = json.load(sys.stdin)
    torch.set_num_threads(1)
    decoder = VideoDecoder(asked["path"], dimension_order="NHWC", num_ffmpeg_threads=1, device="cpu")
    out = {name: cpu_ms(decoder, asked[name]) for name in ("one", "window")}
    out["sequential"] = cpu_ms(decoder, asked["sequential"]) / len(asked["sequential"][0])
    print(json.dumps({**out, "version": f"torchcodec {torchcodec.__version__}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()

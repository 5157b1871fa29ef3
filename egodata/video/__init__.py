"""Video: what a file holds, encoding made for random access, and reading frames by index. The only user of av."""

from egodata.video.av1 import AV1, AV1_SETTINGS, Av1Settings, encode_av1
from egodata.video.encode import encode_frames, encode_video
from egodata.video.jpeg import JpegReader, decode_jpeg, is_jpeg, is_mp4
from egodata.video.mp4 import ChunkIndex, index_chunk
from egodata.video.reader import ChunkCache, FrameReader
from egodata.video.scale import scaled_frames
from egodata.video.scan import VideoScan, scan_video
from egodata.video.settings import COMPACT, DEFAULT_SETTINGS, PROFILES, SWIFT, EncodeSettings
from egodata.video.source import decode_video

__all__ = [
    "AV1",
    "AV1_SETTINGS",
    "COMPACT",
    "DEFAULT_SETTINGS",
    "PROFILES",
    "SWIFT",
    "Av1Settings",
    "ChunkCache",
    "ChunkIndex",
    "EncodeSettings",
    "FrameReader",
    "JpegReader",
    "VideoScan",
    "decode_jpeg",
    "decode_video",
    "encode_av1",
    "encode_frames",
    "encode_video",
    "index_chunk",
    "is_jpeg",
    "is_mp4",
    "scaled_frames",
    "scan_video",
]

"""Undistort frames on their way into the store."""

import av
import cv2
import numpy as np
from av.video.reformatter import VideoReformatter

from egodata.calibration import CameraCalibration
from egodata.geometry.camera import undistortion_map
from egodata.video.colour import to_rgb
from egodata.video.source import rgb_array


class Undistorter:
    """Undistorts decoded frames of one camera to its `undistorted()`; holds the map and a converter.

    Args:
        camera: The distorted camera at the stored size.
        where: File name for errors.
    """

    def __init__(self, camera: CameraCalibration, *, where: str) -> None:
        self._size, self._where = camera.resolution, where
        new_k = np.array(camera.undistorted().k)[:, :3]
        source = undistortion_map(np.array(camera.k)[:, :3], camera.distortion, model=camera.model, new_k=new_k, size=camera.resolution)
        self._x, self._y = (np.ascontiguousarray(source[..., axis], np.float32) for axis in (0, 1))
        self._reformatter = VideoReformatter()

    def __call__(self, frame: av.VideoFrame) -> av.VideoFrame:
        """Return the frame at the stored size, undistorted, in RGB.

        Raises:
            VideoError: Its colours have no conversion here.
        """
        rgb = rgb_array(to_rgb(frame, self._reformatter, size=self._size, where=self._where))
        bent = np.asarray(cv2.remap(rgb, self._x, self._y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE), np.uint8)
        return av.VideoFrame.from_ndarray(np.ascontiguousarray(bent), format="rgb24")

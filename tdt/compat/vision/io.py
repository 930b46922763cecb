"""`torchvision.io`: importable; reading and writing of images and videos is refused, with what to use for images."""

from __future__ import annotations

import enum

from tdt.compat._refusal import refused, refused_class

__all__ = ["ImageReadMode", "VideoReader", "decode_image", "decode_jpeg", "decode_png", "read_image", "read_video", "write_jpeg",
           "write_png", "write_video"]  # fmt: skip

_IMAGE = "tdt reads images through Pillow: transforms.functional.pil_to_tensor(datasets.folder.pil_loader(path))"
_WRITE = "tdt writes images through Pillow: transforms.functional.to_pil_image(image).save(path)"
_VIDEO = "tdt reads and writes no videos"


class ImageReadMode(enum.Enum):
    """The colour format that an image is converted to."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


VideoReader = refused_class("VideoReader", _VIDEO)
decode_image = refused("decode_image", _IMAGE)
decode_jpeg = refused("decode_jpeg", _IMAGE)
decode_png = refused("decode_png", _IMAGE)
read_image = refused("read_image", _IMAGE)
read_video = refused("read_video", _VIDEO)
write_jpeg = refused("write_jpeg", _WRITE)
write_png = refused("write_png", _WRITE)
write_video = refused("write_video", _VIDEO)

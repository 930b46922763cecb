"""Video summaries."""

from __future__ import annotations

import numpy as np
from PIL import Image
from tensorboard.compat.proto.summary_pb2 import Summary

from tdt.utils.tensorboard.summary._arrays import Array, as_array
from tdt.utils.tensorboard.summary._image import encoded, pixels


def video(tag: str, tensor: Array, fps: float = 4) -> Summary:
    """A summary of films of shape (batch, frames, colours, height, width), side by side, as an animated GIF.

    Values are those of an image; fps: frames a second. A batch that is no power of two is filled up with black ones.
    Raises ValueError for another number of dimensions, or no frames.

    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._video import video
    >>> film = video("ball", np.zeros((1, 3, 3, 8, 8), np.uint8)).value[0].image
    >>> film.encoded_image_string[:6]
    b'GIF89a'
    """
    films = as_array(tensor)
    if films.ndim != 5 or not films.size:
        raise ValueError(f"video {tag!r} must have shape (batch, frames, colours, height, width), got {films.shape}")
    batch, frames, colours, height, width = films.shape
    whole = np.zeros((1 << (batch - 1).bit_length(), *films.shape[1:]), films.dtype)
    whole[:batch] = films
    rows = 1 << (batch.bit_length() - 1) // 2
    cells = whole.reshape(rows, -1, frames, colours, height, width).transpose(2, 3, 0, 4, 1, 5)
    drawn = [pixels(frame, "CHW") for frame in cells.reshape(frames, colours, rows * height, -1)]
    pictures = [Image.fromarray(frame) for frame in drawn]
    mosaic_height, mosaic_width, _ = drawn[0].shape
    settings = {"save_all": True, "append_images": pictures[1:], "duration": 1000 / fps, "loop": 0}
    return Summary(
        value=[
            Summary.Value(
                tag=tag, image=encoded(mosaic_height, mosaic_width, colours, pictures[0], format="GIF", **settings)
            )
        ]
    )

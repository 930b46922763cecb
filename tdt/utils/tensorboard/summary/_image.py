"""Image summaries: single images, batches as a grid, bounding boxes, matplotlib figures."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from tensorboard.compat.proto.summary_pb2 import Summary

from tdt.utils.tensorboard.summary._arrays import Array, Figures, Rows, as_array


def image(tag: str, tensor: Array, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """A summary of an image, or of a batch side by side in rows of eight, as a PNG.

    tensor: uint8 in [0, 255], or any other type in [0, 1]; what lies beyond is cut.
    dataformats: what the dimensions are: letters of N (batch), C (colours: 1 or 3, with opacity 2 or 4), H and W in any order.
    Raises ValueError where they do not fit the shape.

    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._image import image
    >>> image("grey", np.zeros((4, 6)), dataformats="HW").value[0].image.width
    6
    """
    return _summary(tag, pixels(as_array(tensor), dataformats), rescale)


def image_boxes(
    tag: str, tensor_image: Array, tensor_boxes: Rows, rescale: float = 1, dataformats: str = "CHW",
    labels: Sequence[str] | None = None,
) -> Summary:  # fmt: skip
    """A summary of an image with red boxes, `tensor_boxes` of shape (boxes, 4): left, top, right and bottom in pixels.

    labels: a text for each box, in its lower left corner. Raises ValueError for boxes of another shape.

    >>> import PIL.Image as Image
    >>> import io
    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._image import image_boxes
    >>> summary = image_boxes("found", np.zeros((3, 8, 8)), np.array([[1, 1, 6, 6]]))
    >>> Image.open(io.BytesIO(summary.value[0].image.encoded_image_string)).getpixel((1, 3))
    (255, 0, 0)
    """
    picture = Image.fromarray(pixels(as_array(tensor_image), dataformats))
    boxes = as_array(tensor_boxes)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes of {tag!r} must have shape (boxes, 4): left, top, right, bottom; got {boxes.shape}")
    for box, label in zip(boxes.tolist(), labels or [""] * len(boxes), strict=True):
        _draw_box(picture, *box, label=label)
    return _summary(tag, np.asarray(picture), rescale)


def pixels(array: np.ndarray, dataformats: str) -> np.ndarray:
    """`array` as bytes of shape (height, width, colours): a batch becomes a grid, grey becomes red, green and blue.

    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._image import pixels
    >>> pixels(np.ones((9, 1, 2, 3)), "NCHW").shape
    (4, 24, 3)
    """
    order = dataformats.upper()
    if sorted(order) not in (sorted("NCHW"), sorted("CHW"), sorted("HW")):
        raise ValueError(f"dataformats must be the letters NCHW, CHW or HW in any order, got {dataformats!r}")
    if array.ndim != len(order):
        shape = tuple(array.shape)
        raise ValueError(f"dataformats={dataformats!r} names {len(order)} dimensions, but the image has shape {shape}")
    colours = array.shape[order.index("C")] if "C" in order else 1
    if not 1 <= colours <= 4 or not array.size:
        raise ValueError(f"an image has 1 to 4 colours and some pixels, got shape {array.shape} as {dataformats!r}")
    array = array.transpose([order.index(letter) for letter in "NCHW" if letter in order])
    if array.ndim == 4:
        array = grid(array)
    elif array.ndim == 2:
        array = array[None]
    array = _coloured(array, axis=0).transpose(1, 2, 0)
    return array if array.dtype == np.uint8 else (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)


def grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Images of shape (batch, colours, height, width) as one, row by row, the rest black; grey ones in colour."""
    count, _, height, width = images.shape
    columns = min(count, columns)
    rows = math.ceil(count / columns) if count else 0
    images = _coloured(images, axis=1)
    whole = np.zeros((rows * columns, *images.shape[1:]), images.dtype)
    whole[:count] = images
    cells = whole.reshape(rows, columns, -1, height, width).transpose(2, 0, 3, 1, 4)
    return cells.reshape(images.shape[1], rows * height, columns * width)


def figures(figure: Figures, close: bool) -> tuple[np.ndarray, str]:
    """A figure of matplotlib as (image, "HWC"), a list of figures of one size as (batch, "NHWC")."""
    if isinstance(figure, list):
        return np.stack([figures(item, close)[0] for item in figure]), "NHWC"
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[..., :3]
    if close:
        plt.close(figure)
    return drawn, "HWC"


def _coloured(array: np.ndarray, axis: int) -> np.ndarray:
    return np.repeat(array, 3, axis) if array.shape[axis] == 1 else array


def _draw_box(picture: Image.Image, left: float, top: float, right: float, bottom: float, *, label: str) -> None:
    draw = ImageDraw.Draw(picture)
    draw.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=2, fill="Red")
    if label:
        font = ImageFont.load_default()
        x0, y0, x1, y1 = font.getbbox(label)
        width, height = x1 - x0, y1 - y0
        margin = math.ceil(0.05 * height)
        draw.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
        draw.text((left + margin, bottom - height - margin), label, fill="black", font=font)


def _summary(tag: str, picture: np.ndarray, rescale: float) -> Summary:
    height, width, colours = picture.shape
    shown = Image.fromarray(picture)
    if rescale != 1:
        shown = shown.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    return Summary(value=[Summary.Value(tag=tag, image=encoded(height, width, colours, shown, format="PNG"))])


def encoded(height: int, width: int, colours: int, picture: Image.Image, **saving: Any) -> Summary.Image:
    """`picture` as a file; `saving` goes to Pillow."""
    file = io.BytesIO()
    picture.save(file, **saving)
    return Summary.Image(height=height, width=width, colorspace=colours, encoded_image_string=file.getvalue())

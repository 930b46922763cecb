"""Draw images for TensorBoard: samples with their predictions or masks, and a confusion matrix."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_LEAST, _MOST = 64, 512  # pixels of a sample's sides: enough for its caption, few enough for many samples
_CELL, _SIDE = 36, 2000  # pixels of a cell of the matrix, and of the whole matrix with many classes
_LINE, _NAME = 14, 160  # pixels of a line of text, and of the longest name
_SWATCH, _NAMED = 10, 24  # pixels of a color in the key of masks, and classes that it names
_GRAY = 128  # of pixels that do not count
_WRONG, _RIGHT, _DARK, _BLACK = (200, 0, 0), (0, 110, 0), (8, 48, 107), (0, 0, 0)


class CaptionedSample(NamedTuple):
    """An image of shape (channels, height, width), its class, the predicted class and the probability of that."""

    image: np.ndarray
    target: str
    prediction: str
    probability: float


class MaskSample(NamedTuple):
    """An image (channels, height, width), and the true and predicted class of each pixel (height, width).

    Shape: the masks may be smaller than the image; a true class below 0 does not count.
    """

    image: np.ndarray
    target: np.ndarray
    prediction: np.ndarray


def captioned(samples: Sequence[CaptionedSample], columns: int = 8) -> np.ndarray:
    """Draw the images in rows, each above its class and, if wrong, the prediction: uint8 (height, width, 3).

    The probability stands behind the predicted class.

    The values of each image are scaled from its minimum (black) to its maximum (white).

    >>> import numpy as np
    >>> from tdt.train.logging.pictures import CaptionedSample, captioned
    >>> captioned([CaptionedSample(np.zeros((1, 28, 28)), "7", "1", 0.8)]).shape
    (112, 94, 3)
    """
    font = ImageFont.load_default()
    size, way = _shown_size(samples[0].image)
    cell_width, cell_height = max(size[0], _LEAST) + 10, size[1] + 2 * _LINE
    columns = min(columns, len(samples))
    page = Image.new("RGB", (cell_width * columns, cell_height * math.ceil(len(samples) / columns)), "white")
    draw = ImageDraw.Draw(page)
    for number, (image, target, prediction, probability) in enumerate(samples):
        x, y = cell_width * (number % columns) + 5, cell_height * (number // columns)
        page.paste(Image.fromarray(_bytes(image)).resize(size, way), (x, y))
        share, width = f" {probability:.0%}", cell_width - 8
        room = width - math.ceil(font.getlength(share))
        if target == prediction:
            lines = [(_fitting(font, target, room) + share, _RIGHT)]
        else:
            lines = [
                (_fitting(font, target, width), _BLACK),
                (_fitting(font, f"pred {prediction}", room) + share, _WRONG),
            ]
        for place, (text, color) in enumerate(lines):
            draw.text((x, y + size[1] + place * _LINE), text, fill=color, font=font)
    return np.asarray(page)


def side_by_side(samples: Sequence[MaskSample], names: Sequence[str]) -> np.ndarray:
    """Draw each image, its true and its predicted mask in a row, below the colors of the classes: uint8 (height, width, 3).

    Pixels that do not count are gray in both masks. Under the prediction: how many of the others are right.

    >>> import numpy as np
    >>> from tdt.train.logging.pictures import MaskSample, side_by_side
    >>> mask = np.zeros((64, 64), int)
    >>> side_by_side([MaskSample(np.zeros((3, 64, 64)), mask, mask)], ["sky", "sun"]).shape
    (120, 222, 3)
    """
    font, colors = ImageFont.load_default(), np.array(palette(len(names)), np.uint8).reshape(-1, 3)
    size, way = _shown_size(samples[0].image)
    cell_width, cell_height = max(size[0], _LEAST) + 10, size[1] + 2 * _LINE
    places, key_height = _key(font, names, 3 * cell_width)
    page = Image.new("RGB", (3 * cell_width, key_height + cell_height * len(samples)), "white")
    draw = ImageDraw.Draw(page)
    for (x, y), color, name in zip(places, colors, names, strict=False):
        draw.rectangle((x, y + 2, x + _SWATCH, y + 2 + _SWATCH), fill=tuple(color.tolist()))
        draw.text((x + _SWATCH + 4, y), _fitting(font, name, _NAME), fill="black", font=font)
    for number, (image, target, prediction) in enumerate(samples):
        y, counted = key_height + cell_height * number, target >= 0
        page.paste(Image.fromarray(_bytes(image)).resize(size, way), (5, y))
        for column, mask in enumerate((target, prediction), 1):
            panel = np.where(counted[..., None], colors[np.where(counted, mask, 0)], _GRAY).astype(np.uint8)
            page.paste(Image.fromarray(panel).resize(size, Image.Resampling.NEAREST), (cell_width * column + 5, y))
        right = (target == prediction)[counted].mean() if counted.any() else 1
        for column, text in enumerate(("image", "truth", f"prediction: {right:.1%}")):
            draw.text((cell_width * column + 5, y + size[1]), _fitting(font, text, cell_width), fill="black", font=font)
    return np.asarray(page)


def _key(font: Any, names: Sequence[str], width: int) -> tuple[list[tuple[int, int]], int]:
    """Where the color of each of the first classes stands, in lines of `width` pixels, and the height of all lines."""
    x, y, places = 5, 0, []
    for name in names[:_NAMED]:
        needed = _SWATCH + 16 + math.ceil(font.getlength(_fitting(font, name, _NAME)))
        if x + needed > width and x > 5:
            x, y = 5, y + _LINE
        places.append((x, y))
        x += needed
    return places, y + 2 * _LINE


def palette(classes: int) -> list[int]:
    """The colors of a mask's classes, 3 bytes each: black for the first, then hues far from each other.

    >>> from tdt.train.logging.pictures import palette
    >>> palette(2)
    [0, 0, 0, 230, 46, 46]
    """
    hues = [(0.618034 * i) % 1 for i in range(classes - 1)]  # the golden ratio spreads any number of hues
    colors = [colorsys.hsv_to_rgb(hue, 0.8, 0.9 - 0.3 * (i // 8 % 2)) for i, hue in enumerate(hues)]
    return [0, 0, 0] + [round(255 * part) for color in colors for part in color]


def _shown_size(image: np.ndarray) -> tuple[tuple[int, int], Image.Resampling]:
    """Width and height in which an image (channels, height, width) is drawn, and how it is resized."""
    height, width = image.shape[1:]
    scale = min(math.ceil(_LEAST / min(height, width)), _MOST / max(height, width))
    way = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BOX
    return (max(1, round(width * scale)), max(1, round(height * scale))), way


def matrix(counts: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Draw a confusion matrix, rows for true and columns for predicted classes, with titles: uint8 (height, width, 3).

    The darker a cell, the larger its share of the row; cells show their number if it fits. With many classes only some
    are named.

    >>> import numpy as np
    >>> from tdt.train.logging.pictures import matrix
    >>> matrix(np.eye(2, dtype=int), ["cat", "dog"]).shape[2]
    3
    """
    font, classes = ImageFont.load_default(), len(names)
    cell = min(_CELL, max(1, _SIDE // classes))
    texts = {i: _fitting(font, names[i], _NAME) for i in range(0, classes, math.ceil(_LINE / cell))}
    names_width = 12 + math.ceil(max(map(font.getlength, texts.values())))
    margin = _LINE + names_width  # a line for the title of each axis
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    cells = np.full((classes, cell, classes, cell, 3), 255, np.uint8)
    filled = max(1, cell - 1)  # the rest is a white grid line
    colours = (255 + shares[..., None] * (np.array(_DARK) - 255)).round()
    cells[:, :filled, :, :filled] = colours[:, None, :, None]
    page = Image.new("RGB", (margin + cell * classes,) * 2, "white")
    page.paste(Image.fromarray(cells.reshape(cell * classes, -1, 3)), (margin, margin))
    draw = ImageDraw.Draw(page)
    for i, text in texts.items():
        place = margin + cell * i + cell // 2
        draw.text((margin - 6, place), text, fill="black", font=font, anchor="rm")
        page.paste(_upwards(font, text, names_width), (place - _LINE // 2, _LINE))
    middle_of_axis = margin + cell * classes // 2
    draw.text((middle_of_axis, 0), "predicted", fill="black", font=font, anchor="ma")
    page.paste(title := _upwards(font, "true", 36), (0, middle_of_axis - title.height // 2))
    for i, j in np.argwhere(counts if cell >= _LINE else []):
        text = str(counts[i, j])
        if font.getlength(text) < cell:
            ink = "white" if shares[i, j] > 0.5 else "black"
            middle = margin + cell * j + cell // 2, margin + cell * i + cell // 2
            draw.text(middle, text, fill=ink, font=font, anchor="mm")
    return np.asarray(page)


def _upwards(font: Any, text: str, length: int) -> Image.Image:
    """A text that is read from bottom to top, `length` pixels high."""
    across = Image.new("RGB", (length, _LINE), "white")
    ImageDraw.Draw(across).text((6, _LINE // 2), text, fill="black", font=font, anchor="lm")
    return across.rotate(90, expand=True)


def normal(image: np.ndarray) -> np.ndarray:
    """Scale `image` to 0..1. Infinite values become 0 or 1, NaN becomes 0.

    >>> import numpy as np
    >>> from tdt.train.logging.pictures import normal
    >>> normal(np.array([2.0, 3, 4, np.inf, np.nan]))
    array([0. , 0.5, 1. , 1. , 0. ])
    """
    image = image.astype(np.float64)
    finite = image[np.isfinite(image)]
    low, high = (finite.min(), finite.max()) if finite.size else (0, 0)
    return np.nan_to_num((image.clip(low, high) - low) / (high - low)) if high > low else np.zeros(image.shape)


def _fitting(font: Any, text: str, width: int) -> str:
    """`text` in one line, cut to `width` pixels."""
    line = cut = " ".join(text.split())[: width // 2]  # few letters are narrower than two pixels
    while font.getlength(cut) > width:
        line = line[:-1]
        cut = f"{line}.."
    return cut


def _bytes(image: np.ndarray) -> np.ndarray:
    shown = (normal(image) * 255).astype(np.uint8).transpose(1, 2, 0)
    return np.repeat(shown, 3, 2) if shown.shape[2] == 1 else shown


def is_mask(target: tuple[int, ...], image: tuple[int, ...]) -> bool:
    """Whether a target of this shape has a class for each pixel, or for each block of pixels, of an image (C, H, W).

    >>> from tdt.train.logging.pictures import is_mask
    >>> is_mask((32, 48), (3, 64, 96)), is_mask((1, 64, 96), (3, 64, 96)), is_mask((10,), (3, 64, 96))
    (True, True, False)
    """
    sizes = target[1:] if len(target) == 3 and target[0] == 1 else target
    return is_image(image) and len(sizes) == 2 and sizes[0] * image[2] == sizes[1] * image[1]


def is_image(shape: Iterable[int]) -> bool:
    """Whether an input of this shape is an image: (1 or 3 channels, height, width)."""
    sizes = tuple(shape)
    return len(sizes) == 3 and sizes[0] in (1, 3)

"""Images drawn for a person to look at: samples with what the model says of them, and a confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_LEAST = 64  # pixels of a sample's shorter side, so that its caption can be read
_CELL = 36  # pixels of a cell of a matrix
_WRONG, _RIGHT = (200, 0, 0), (0, 110, 0)


class Told(NamedTuple):
    """An image of shape (colours, height, width), its class and the one that the model gives it."""

    image: np.ndarray
    target: str
    prediction: str


def captioned(samples: Sequence[Told], columns: int = 8) -> np.ndarray:
    """The images in rows, each over its class, and the model's where it is another: bytes (height, width, 3).

    What an image has between its smallest and its largest value is shown from black to white.

    >>> captioned([Told(np.zeros((1, 28, 28)), "7", "1")]).shape
    (112, 94, 3)
    """
    font = ImageFont.load_default()
    height, width = samples[0].image.shape[1:]
    scale = max(1, math.ceil(_LEAST / min(height, width)))
    wide, tall, line = width * scale + 10, height * scale + 28, 14
    columns = min(columns, len(samples))
    page = Image.new("RGB", (wide * columns, tall * math.ceil(len(samples) / columns)), "white")
    draw = ImageDraw.Draw(page)
    for number, (image, target, prediction) in enumerate(samples):
        x, y = wide * (number % columns) + 5, tall * (number // columns)
        shown = Image.fromarray(_bytes(image)).resize((width * scale, height * scale), Image.Resampling.NEAREST)
        page.paste(shown, (x, y))
        right = target == prediction
        draw.text((x, y + height * scale), target, fill=_RIGHT if right else "black", font=font)
        if not right:
            draw.text((x, y + height * scale + line), f"said {prediction}", fill=_WRONG, font=font)
    return np.asarray(page)


def matrix(counts: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """A confusion matrix, rows for the classes and columns for what they were taken for: bytes (height, width, 3).

    The darker a cell, the larger its share of its row; numbers stand in it where they fit.

    >>> matrix(np.eye(2, dtype=int), ["cat", "dog"]).shape[2]
    3
    """
    font, classes = ImageFont.load_default(), len(names)
    margin = 12 + math.ceil(max(font.getlength(name) for name in names))
    size = margin + _CELL * classes
    page = Image.new("RGB", (size, size), "white")
    draw = ImageDraw.Draw(page)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for i in range(classes):
        middle = margin + _CELL * i + _CELL // 2
        draw.text((margin - 6, middle), names[i], fill="black", font=font, anchor="rm")
        across = Image.new("RGB", (margin, _CELL), "white")
        ImageDraw.Draw(across).text((6, _CELL // 2), names[i], fill="black", font=font, anchor="lm")
        page.paste(across.rotate(90, expand=True), (margin + _CELL * i, 0))
        for j in range(classes):
            x, y, shade = margin + _CELL * j, margin + _CELL * i, shares[i, j]
            colour = tuple(round(255 + shade * (dark - 255)) for dark in (8, 48, 107))
            draw.rectangle([x, y, x + _CELL - 2, y + _CELL - 2], fill=colour)
            text = str(counts[i, j])
            if counts[i, j] and font.getlength(text) < _CELL:
                ink = "white" if shade > 0.5 else "black"
                draw.text((x + _CELL // 2, y + _CELL // 2), text, fill=ink, font=font, anchor="mm")
    return np.asarray(page)


def normal(image: np.ndarray) -> np.ndarray:
    """`image` from 0 to 1, whatever its values were normalised to."""
    low, high = np.nanmin(image), np.nanmax(image)
    return np.nan_to_num((image - low) / (high - low)) if high > low else np.zeros(image.shape)


def _bytes(image: np.ndarray) -> np.ndarray:
    shown = (normal(image.astype(np.float64)) * 255).astype(np.uint8).transpose(1, 2, 0)
    return np.repeat(shown, 3, 2) if shown.shape[2] == 1 else shown

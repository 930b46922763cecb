"""Opens image files with Pillow."""

from __future__ import annotations

import contextlib
import os
import struct
import warnings
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

# Formats that Pillow decodes itself. Without this list it detects the format from the content and passes some files to
# other programs: an EPS file to Ghostscript, which executes it.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000")

_Turn = Image.Transpose
_TURNS = {
    2: _Turn.FLIP_LEFT_RIGHT, 3: _Turn.ROTATE_180, 4: _Turn.FLIP_TOP_BOTTOM, 5: _Turn.TRANSPOSE, 6: _Turn.ROTATE_270,
    7: _Turn.TRANSVERSE, 8: _Turn.ROTATE_90,
}  # fmt: skip
_ORIENTED = (
    "exif",
    "xmp",
    "XML:com.adobe.xmp",
    "Raw profile type exif",
)  # entries of `info` that may have an orientation
_DECODING_ERRORS = (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, EOFError, struct.error)


class UnreadableImage(ValueError):
    """A file that is no image, is cut short, is of an unknown kind, or has too many pixels."""


@contextlib.contextmanager
def open_image(file: str | os.PathLike[str] | BinaryIO, path: str) -> Iterator[Image.Image]:
    """The image in a path or an open file, which an error calls `path`; its pixels are read when they are first used.

    UnreadableImage for what is no image of `FORMATS`, is damaged, or would unpack to more pixels than Pillow takes for sane;
    OSError if the file cannot be read.
    """
    with pillow_warnings(), _errors_of(path), Image.open(file, formats=FORMATS) as image:
        yield image


@contextlib.contextmanager
def pillow_warnings() -> Iterator[None]:
    """Make Pillow's warning about too many pixels an exception, and ignore those about damaged EXIF data."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Corrupt EXIF|Truncated File|Tag data larger|Metadata Warning")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except UnidentifiedImageError as error:
        empty = os.path.isfile(path) and os.path.getsize(path) == 0
        raise UnreadableImage(f"{path}: {'is empty: 0 bytes' if empty else 'is not a readable image'}") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableImage(f"{path}: has too many pixels: {error}") from error
    except UnreadableImage as error:
        raise UnreadableImage(f"{path}: {error}") from error
    except _DECODING_ERRORS as error:
        if isinstance(error, OSError) and error.errno is not None:  # no such file, no permission
            raise
        raise UnreadableImage(f"{path}: is damaged or truncated: {error}") from error


def upright(image: Image.Image) -> Image.Image:
    """The image turned and flipped as its EXIF orientation says, which cameras write; the same image without one.

    As Pillow's `ImageOps.exif_transpose`, which writes all EXIF data again and fails if some are damaged.
    """
    if _orientation(image) == 1:
        return image
    image.load()  # which turns a TIFF in newer versions of Pillow
    turn = _TURNS.get(_orientation(image))
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.info = {key: value for key, value in turned.info.items() if key not in _ORIENTED}
    return turned


def _orientation(image: Image.Image) -> int:
    number = image.getexif().get(ExifTags.Base.Orientation)
    return number if isinstance(number, int) and number in _TURNS else 1


def as_rgb(image: Image.Image) -> Image.Image:
    """An image upright, in RGB with 8 bits: of 16 bits the high byte, of an animation the first frame, without transparency.

    UnreadableImage for pixels of 32 bits, whose range is unknown.

    >>> from PIL import Image
    >>> from tdt.vision._images import as_rgb
    >>> as_rgb(Image.new("I;16", (1, 1), 0x8001)).getpixel((0, 0))
    (128, 128, 128)
    """
    kind = image.format
    image = upright(image)
    if image.mode.startswith("I;16") or (image.mode == "I" and kind in ("PNG", "PPM")):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))  # convert() makes all values above 255 white
    elif image.mode in ("I", "F"):
        raise UnreadableImage(f"has pixels of 32 bits (mode {image.mode}), of unknown range; save it with 8 or 16 bits")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns otherwise
    return image.convert("RGB")

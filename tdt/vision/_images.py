"""Opens image files with Pillow."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

# Formats that Pillow decodes itself. Without this list it detects the format from the content and passes some files to
# other programs: an EPS file to Ghostscript, which executes it.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000")


@contextlib.contextmanager
def open_image(file: str | os.PathLike[str] | BinaryIO, path: str) -> Iterator[Image.Image]:
    """The image in a path or an open file, which an error calls `path`; its pixels are read when they are first used.

    ValueError for what is no image of `FORMATS`, is damaged, or would unpack to more pixels than Pillow takes for sane;
    FileNotFoundError.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as image:
                yield image
    except UnidentifiedImageError as error:
        raise ValueError(f"{path}: is not a readable image") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"{path}: has too many pixels: {error}") from error
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: is damaged or truncated: {error}") from error

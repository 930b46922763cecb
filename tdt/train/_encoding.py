"""Decoding of files that users have written: UTF-8, with or without a byte order mark, or an error that says what to do."""

from __future__ import annotations

import codecs

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode(data: bytes) -> str:
    """The text of a file, with its line ends unchanged. Raises ValueError if it is not UTF-8.

    >>> from tdt.train._encoding import decode
    >>> decode(bytes([0xEF, 0xBB, 0xBF]) + b"a,b")
    'a,b'
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(error) from error
    if is_utf16(data):  # without a byte order mark it may be valid UTF-8
        raise ValueError("is UTF-16 text; save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8")
    return text


def is_utf16(data: bytes) -> bool:
    """Whether a file begins as UTF-16: with a byte order mark, or with eight characters of one byte and a zero."""
    halves = data[0:16:2], data[1:16:2]
    return data.startswith(_MARKS) or (len(data) >= 4 and any(halves[0]) != any(halves[1]))


def not_utf8(error: UnicodeDecodeError) -> ValueError:
    """The error for a file whose text is not UTF-8."""
    coding = "UTF-16" if is_utf16(error.object) else "WINDOWS-1252"
    byte = f"it has a byte {error.object[error.start]:#04x}"
    return ValueError(f"is not UTF-8 text: {byte}; save it as UTF-8, or convert it: iconv -f {coding} -t UTF-8")

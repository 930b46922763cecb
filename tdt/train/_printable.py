"""Text from outside, as a terminal, a comment or a line of its own can take it."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""`text` with line breaks, control characters and bytes that are no UTF-8 spelt out.

    >>> print(printable("tab\there"))
    tab\there
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

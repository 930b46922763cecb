"""Text from outside (configs, data, names) made safe for a terminal, a comment, a single line or a cell of a table.

Everything that the commands print goes through `tdt.commands._output.print_lines`, and so through `message` or `document`.
They escape control characters, so that no name in a config, a table or a checkpoint can move the cursor, cut the lines of
messages, and replace a value from the environment by the reference `${env:NAME}` that the config contains.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST = 2_000  # characters of a line of a message
SHORTEST_HIDDEN = 5  # characters: a shorter value occurs in many words
BEGINNING = 8  # characters by which a hidden value is recognised if its end was cut off
_FORMULA = "=+-@\t\r\n\uff0b\uff0d\uff1d\uff20"  # a spreadsheet reads these as the beginning of a formula
_hidden: dict[str, str] = {}  # value from the environment → reference that is printed in its place


def printable(text: str) -> str:
    r"""`text` with line breaks, control characters and bytes that are not UTF-8 escaped.

    >>> from tdt.train._printable import printable
    >>> print(printable("tab\there"))
    tab\there
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened(text: str, longest: int = LONGEST) -> str:
    """`text`; if it has more than `longest` characters, its middle is left out.

    >>> from tdt.train._printable import shortened
    >>> shortened("a" * 50 + "b" * 50, 40)
    'aaaaaa[... 60 more characters ...]bbbbbb'
    """
    if len(text) <= longest:
        return text
    mark = f"[... {len(text) - longest:,} more characters ...]"
    remaining = max(longest - len(mark), 0)
    return text[: remaining - remaining // 2] + mark + text[len(text) - remaining // 2 :]


def cut(text: str, longest: int = 60) -> str:
    """`text`; if it has more than `longest` characters, its end is left out.

    >>> from tdt.train._printable import cut
    >>> cut("abcdefghij", 8)
    'abcd ...'
    """
    return text if len(text) <= longest else text[: longest - 4] + " ..."


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with a noun, in the plural (by default with an s) unless the number is 1.

    >>> from tdt.train._printable import counted
    >>> counted(1, "row"), counted(1500, "row"), counted(0, "class", "classes")
    ('1 row', '1,500 rows', '0 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def number(value: float) -> str:
    """Format with four decimals; very small and very large numbers with four significant digits.

    >>> from tdt.train._printable import number
    >>> number(0.5), number(0.0), number(0.000031234), number(7.2448e18)
    ('0.5000', '0.0000', '3.123e-05', '7.245e+18')
    """
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Format a duration in ms, s, m:ss or h:mm:ss.

    >>> from tdt.train._printable import duration
    >>> duration(0.012), duration(0.4), duration(17), duration(185), duration(3723)
    ('12 ms', '0.4 s', '17 s', '3:05', '1:02:03')
    """
    whole = round(seconds)
    if 0 < seconds < 0.1:
        return f"{seconds * 1e3:.0f} ms"
    if 0 < seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def hide(value: str, reference: str) -> None:
    """From now on, print `reference` in place of the text `value`, which came from the environment."""
    if len(value) >= SHORTEST_HIDDEN:
        _hidden[value] = reference


def redacted(text: str) -> str:
    """`text` with each hidden value, whole or cut off, replaced by its reference.

    >>> from tdt.train._printable import _hidden, hide, redacted
    >>> hide("correct horse battery", "${env:KEY}")
    >>> redacted("cannot log in with 'correct horse ...'")
    "cannot log in with '${env:KEY}...'"
    >>> _hidden.clear()  # or other messages would hide it, too
    """
    for value, reference in _hidden.items():
        for form in dict.fromkeys((value, repr(value)[1:-1], printable(value))):
            text = _replaced(text, form, reference)
    return text


def _replaced(text: str, form: str, reference: str) -> str:
    begin, at, pieces = form[:BEGINNING], 0, []
    while (found := text.find(begin, at)) >= 0:
        end = len(begin)
        while end < len(form) and text[found + end : found + end + 1] == form[end]:
            end += 1
        pieces += [text[at:found], reference]
        at = found + end
    return "".join([*pieces, text[at:]]) if pieces else text


def message(text: str) -> str:
    """Lines ready to print: hidden values replaced, control characters escaped, each line cut to `LONGEST`."""
    return "\n".join(shortened(printable(line)) for line in redacted(text).split("\n"))


def document(text: str) -> str:
    """Like `message`, but lines keep their length: for configs, JSON, and tables (whose cells are cut)."""
    return "\n".join(map(printable, redacted(text).split("\n")))


def csv_cell(value: Any) -> Any:
    """A CSV cell: text that a spreadsheet would run as a formula gets an apostrophe in front; numbers stay numbers.

    >>> from tdt.train._printable import csv_cell
    >>> [csv_cell(cell) for cell in ("cat", "=1+1", "-0.5", -0.5, "@x")]
    ['cat', "'=1+1", '-0.5', -0.5, "'@x"]
    """
    if not isinstance(value, str) or value[:1] not in _FORMULA or not value:
        return value
    return value if _is_number(value) else f"'{value}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf)", text) is not None

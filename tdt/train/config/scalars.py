"""Resolve unquoted YAML scalars by the core schema of YAML 1.2, a little stricter.

`1e-5` is a number; `no`, `off`, dates, `12:30` and `017` are strings, and `hint` says what was probably meant if a
number or a Boolean is expected.
"""

from __future__ import annotations

import re
from typing import Any

from tdt.train._printable import cut

_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_HEX = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")

LONGEST_NUMBER = 40  # digits; nothing a config counts needs more, and int() of a long text takes quadratic time

_TRUE_WORDS = {"yes", "y", "on", "true", "t"}
_FALSE_WORDS = {"no", "n", "off", "false", "f"}


def resolve(text: str) -> Any:
    """The value of an unquoted scalar: None, bool, int, float or the text itself.

    Raises ValueError for a number out of range (`1e999`, an integer of thousands of digits).

    >>> from tdt.train.config.scalars import resolve
    >>> resolve("1e-5"), resolve("no"), resolve("017"), resolve("0x10")
    (1e-05, 'no', '017', 16)
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789" or _LEADING_ZERO.fullmatch(text):
        return text
    if _SPECIAL.fullmatch(text):
        return float(text.lower().replace(".", ""))
    is_int = _INT.fullmatch(text)
    is_based = not is_int and _HEX.fullmatch(text)
    if not (is_int or is_based or _FLOAT.fullmatch(text)):
        return text
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"the number has {len(text)} characters; {LONGEST_NUMBER} is the most that is read")
    if is_int or is_based:
        return int(text, 0 if is_based else 10)
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large for a float; infinity is written .inf")
    return value


def spell(value: Any) -> str:
    """A value for an error message, in YAML's spelling and shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    return cut(repr(value))


def hint(value: Any, expected: set[type]) -> str | None:
    """What to write instead of `value` if one of the types `expected` is required; None without a guess."""
    if bool in expected and (word := _truth_word(value)):
        return f"write {word}"
    if isinstance(value, float) and int in expected and value == value // 1:
        return f"write {int(value)}"
    if not isinstance(value, str):
        return f"quote it: '{spell(value)}'" if expected == {str} and not isinstance(value, (dict, list)) else None
    if dict in expected and (pair := re.fullmatch(r"([A-Za-z_]\w*):(\S.*)", value)):
        return f"write '{pair[1]}: {pair[2]}', with a blank after the colon"
    if value.lower() == "none" and type(None) in expected:
        return "write null"
    if value.startswith("(") and value.endswith(")") and tuple in expected:
        return f"write [{value[1:-1].rstrip(', ')}]"
    if expected & {int, float}:
        return _number_hint(value, expected)
    return None


def _truth_word(value: Any) -> str | None:
    if isinstance(value, (int, float)) and value in (0, 1):
        return "true" if value else "false"
    word = value.lower() if isinstance(value, str) else None
    if word in _TRUE_WORDS:
        return "true"
    return "false" if word in _FALSE_WORDS else None


def _number_hint(text: str, expected: set[type]) -> str | None:
    if _LEADING_ZERO.fullmatch(text):
        return f"a number has no leading zero: write {int(text)}" if len(text) < LONGEST_NUMBER else None
    if re.fullmatch(r"[0-9]+(:[0-5]?[0-9])+", text):
        return "a number with ':' is a string here, not base 60 as in YAML 1.1: write it in seconds or as one number"
    if re.fullmatch(r"\d{4}-\d\d?-\d\d?.*", text):
        return "a date is a string here"
    if re.fullmatch(r"\d+,\d+", text):
        return "the decimal point is '.'; thousands are written without ','"
    plain = re.sub(r"(?<=\d)_(?=\d)", "", text)
    try:
        number = resolve(plain) if plain else None
    except ValueError:
        return None
    if isinstance(number, int) or (isinstance(number, float) and float in expected):
        return f"write {plain}" if plain != text else f"write {plain} without quotes"
    return None

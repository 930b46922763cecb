"""Values that the fields of a table spell: numbers as people and programs write them, dates, booleans."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
TRUE = frozenset({"true", "yes", "y", "t", "on", "1", "1.0"})
FALSE = frozenset({"false", "no", "n", "f", "off", "0", "0.0"})
ISO = "ISO 8601"
PLAIN = ""  # the format of numbers that Python reads
DECIMALS = (".", ",")
CODES = frozenset("USD EUR GBP CHF JPY CNY INR AUD CAD SEK NOK DKK PLN CZK KR ZŁ FR RS".split())  # noqa: SIM905

_NUMBER = re.compile(
    r"(?P<open>\()?\s*(?P<sign>[-+\N{MINUS SIGN}]?)\s*(?P<before>[^\d\s.,()'’+\N{MINUS SIGN}-]{0,4})\s*"
    r"(?P<inner>[-\N{MINUS SIGN}]?)(?P<digits>[\d.,][\d.,'’\s]*(?:[eE][-+]?\d+)?)\s*"
    r"(?P<after>[^\d\s.,()'’+-]{0,4})\s*(?P<close>\))?"
)
_DIGITS = {
    decimal: re.compile(
        rf"(?P<whole>[1-9]\d{{0,2}}(?P<group>[{group}\s'’])(?:\d{{2,3}}(?P=group))*\d{{3}}|\d*)"
        rf"(?:[{decimal}](?P<fraction>\d*))?(?P<exponent>[eE][-+]?\d+)?"
    )
    for decimal, group in ((".", ","), (",", "."))
}
# Of formats that begin alike the first that reads every field is taken: month/day before day/month, unless `day_first`.
_DAYS_FIRST = ("%d/%m/%Y", "%d-%m-%Y", "%d/%m/%y", "%d-%m-%y")
_MONTHS_FIRST = ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y", "%m-%d-%y")
_OTHER_DATES = ("%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%Y.%m.%d", "%d %B %Y", "%d %b %Y", "%d. %B %Y", "%d-%b-%Y", "%d-%b-%y",
                "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y", "%a, %d %b %Y", "%a %b %d %Y")  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", " %H:%M:%S.%f")
_EPOCH = datetime.datetime(1970, 1, 1)


def is_missing(text: str) -> bool:
    """Whether a field means a missing value."""
    return text.strip().lower() in MISSING


def is_number(text: str) -> bool:
    """Whether a field is a number as Python reads it, which may be infinite."""
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def number(text: str, decimal: str = PLAIN) -> float | None:
    """The number that a field spells with the decimal separator `decimal`, PLAIN for Python's spelling; None if it is none.

    With a separator, thousands may be grouped by the other one, spaces or apostrophes, a currency or % may stand beside
    the number, and parentheses mean a negative number.

    >>> from tdt.train.data.datasets._values import number
    >>> number("1.234,50 €", ","), number("$1,234.50", "."), number("15 %", "."), number("(3)", "."), number("12/3", ".")
    (1234.5, 1234.5, 15.0, -3.0, None)
    """
    parsed = (float(text), "") if is_number(text) and decimal in (PLAIN, ".") else _localized(text, decimal)
    return None if parsed is None else parsed[0]


def _localized(text: str, decimal: str) -> tuple[float, str] | None:
    """The number and its unit."""
    found = _NUMBER.fullmatch(text.strip()) if decimal else None
    if found is None or bool(found["open"]) != bool(found["close"]) or (found["sign"] and found["inner"]):
        return None
    digits, units = _DIGITS[decimal].fullmatch(found["digits"].strip()), [found["before"], found["after"]]
    if digits is None or not (digits["whole"] or digits["fraction"]) or all(units) or not all(map(_is_unit, units)):
        return None
    if found["before"] == "%":
        return None
    whole = re.sub(r"\D", "", digits["whole"])
    value = float(f"{whole or 0}.{digits['fraction'] or 0}{digits['exponent'] or ''}")
    negative = found["open"] or ("+" not in (signs := found["sign"] + found["inner"]) and signs)
    return -value if negative else value, "".join(units).upper()


def _is_unit(text: str) -> bool:
    if text in ("", "%") or text.upper() in CODES:
        return True
    return unicodedata.category(text[-1]) == "Sc" and (text[:-1].isupper() or not text[:-1])


def number_format(texts: Iterable[str], decimal: str | None = None) -> str | None:
    """The decimal separator with which every field that is not missing is a number; None if there is none.

    PLAIN if all are numbers as Python reads them. Where both separators fit, as for 1,234, it is the point. Fields with
    different currencies, or with and without %, have no format.

    >>> from tdt.train.data.datasets._values import number_format
    >>> number_format(["1.234,50", "7"]), number_format(["1,234", "7"]), number_format(["1.5", "7"]), number_format(["x"])
    (',', '.', '', None)
    """
    present = {text for text in texts if not is_missing(text)}
    if decimal in (None, ".") and all(map(is_number, present)):
        return PLAIN
    for choice in DECIMALS if decimal is None else (decimal,):
        units: set[str] = set()
        for text in present:
            parsed = (float(text), "") if choice == "." and is_number(text) else _localized(text, choice)
            if parsed is None:
                break
            units.add(parsed[1])
        else:
            if len(units - {""}) <= 1 and not ("%" in units and "" in units):
                return choice
    return None


def boolean(text: str) -> bool | None:
    """The truth value that a field spells, in any case; None if it is none."""
    lowered = text.strip().lower()
    return True if lowered in TRUE else False if lowered in FALSE else None


@functools.lru_cache(maxsize=1 << 16)  # a column is read once for each part of its dates
def date(text: str, format: str) -> datetime.datetime | None:
    """The date that a field spells; times with a zone are in UTC. format: ISO or one of `strptime`'s. None if it is none.

    >>> from tdt.train.data.datasets._values import ISO, date
    >>> date("2024-02-29", ISO), date("29/2/2024 10:30", "%d/%m/%Y %H:%M")
    (datetime.datetime(2024, 2, 29, 0, 0), datetime.datetime(2024, 2, 29, 10, 30))
    """
    text = " ".join(text.split())
    try:
        if format != ISO:
            return datetime.datetime.strptime(text, format)
        if not re.match(r"\d{4}-\d{2}-\d{2}", text):  # 20240229 is a number
            return None
        found = datetime.datetime.fromisoformat(text)
        return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def date_format(texts: Iterable[str], day_first: bool = False) -> str | None:
    """The format in which every field that is not missing is a date; None if there is none.

    day_first: read 3/4/2024 as the third of April, where both are possible.

    >>> from tdt.train.data.datasets._values import date_format
    >>> date_format(["3/4/2024", "13/4/2024"]), date_format(["3/4/2024"]), date_format(["3/4/2024"], day_first=True)
    ('%d/%m/%Y', '%m/%d/%Y', '%d/%m/%Y')
    """
    present = sorted({text for text in texts if not is_missing(text)})
    orders = (_DAYS_FIRST, _MONTHS_FIRST) if day_first else (_MONTHS_FIRST, _DAYS_FIRST)
    if not present or not any(character.isdigit() for character in present[0]):
        return None
    formats = (day + time for day, time in itertools.product(itertools.chain(*orders, _OTHER_DATES), _TIMES))
    return next(
        (format for format in itertools.chain((ISO,), formats) if all(date(text, format) for text in present)), None
    )


def date_part(when: datetime.datetime, part: str) -> float:
    """Days since 1970 with their fraction, the year, month, day, weekday (Monday is 0) or hour with its fraction."""
    if part == "days":
        return (when - _EPOCH) / datetime.timedelta(days=1)
    if part == "weekday":
        return when.weekday()
    if part == "hour":
        return when.hour + when.minute / 60 + when.second / 3600
    return getattr(when, part)


DATE_PARTS = ("days", "year", "month", "day", "weekday", "hour")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # written without spaces: each character is a word
_WORD = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}_])\w)+(?:['’](?:(?![{_CJK}_])\w)+)*")


def words(text: str) -> list[str]:
    """The words of a text, in lower case, without punctuation.

    >>> from tdt.train.data.datasets._values import words
    >>> words("It's GOOD, isn't it? 10/10")
    ["it's", 'good', "isn't", 'it', '10', '10']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def vocabulary(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """The `most` most frequent words; of equally frequent ones the alphabetically first."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in words(text):
            counts[word] = counts.get(word, 0) + 1
    return tuple(sorted(counts, key=lambda word: (-counts[word], word))[:most])

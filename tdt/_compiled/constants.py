"""Values of a program that are the same in every call, as a causal mask is: they are computed once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tdt._compiled.program import Program, Statement, copy_in_memory

MOST_BYTES = 1 << 20  # of a value that is kept


def computed_before(
    program: Program, statements: Sequence[Statement], written: Collection[str], returned: Collection[str]
) -> list[Statement]:
    """The statements, with copies in the place of those that compute a value of constants alone.

    Args:
        written: the values that something may be written to, and what they are computed of.
        returned: the values that are read after the program.
    """
    known: dict[str, np.ndarray] = {}
    for each in statements:
        if _may_be_known(each, known) and each.outs[0] not in written:
            with np.errstate(all="ignore"):
                value = eval(each.text, {**program.constants, **known})
            if _is_like_its_copy(value):
                known[each.outs[0]] = value
    read = {*returned, *(name for each in statements if known.keys().isdisjoint(each.outs) for name in each.reads)}
    found = []
    for each in statements:
        if known.keys().isdisjoint(each.outs) or not each.reads:
            found.append(each)
        elif each.outs[0] in read:
            text = f"{program.constant(copy_in_memory)}({program.constant(known[each.outs[0]])})"
            found.append(Statement(text, each.outs, (), trusts=each.trusts))
    return [each for each in found if known.keys().isdisjoint(each.outs) or each.outs[0] in read]


def _may_be_known(statement: Statement, known: Collection[str]) -> bool:
    is_one = len(statement.outs) == 1 and not statement.outs[0].endswith(",")
    return is_one and statement.repeatable and not statement.writes and all(name in known for name in statement.reads)


def _is_like_its_copy(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray) and value.nbytes <= MOST_BYTES and copy_in_memory(value).strides == value.strides
    )

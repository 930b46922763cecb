"""Products whose transpose alone is read: they are computed so that the transpose lies in order.

    scores = q @ k.mT                       the gradient of k.mT is qᵀ g, and that of k its transpose

Added to another gradient, a transpose is read across its memory, which takes four times as long. Elements are the same: sums have
one order, whichever operand is the left one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from tdt import _kernels
from tdt._compiled.program import Program, Statement
from tdt._kernels._native import vector_width
from tdt._kernels.fused import Layout

MATRIX = 2  # dimensions
LEAST_WIDTH = 8  # floats of a vector from which on products are not NumPy's


def turn_products(programs: Sequence[Program], returned: Collection[str]) -> None:
    """Replace gradients of right operands, in programs that share names. returned: the names of their results."""
    if vector_width() < LEAST_WIDTH:
        return
    statements = [each for program in programs for each in program.statements]
    by_name = {name: each for each in statements for name in each.outs}
    readers: dict[str, list[Statement]] = {}
    for each in statements:
        for name in {*each.reads}:
            readers.setdefault(name, []).append(each)
    turned: set[str] = set()
    added: dict[str, str] = {}
    for each in statements:
        transpose = _only(readers, each, returned) if _is_gradient(each, "matmul", 1) and len(each.reads) == 2 else None
        total = _only(readers, transpose, returned) if transpose and _is_gradient(transpose, "permute", 0) else None
        if total is not None and _adds_across(total, transpose.outs[0], by_name):  # type: ignore[union-attr]
            turned.add(each.outs[0])
            added[total.outs[0]] = transpose.outs[0]  # type: ignore[union-attr]
    for program in programs if turned else ():
        program.statements = [_replaced(program, each, turned, added) for each in program.statements]


def _is_gradient(statement: Statement, name: str, place: int) -> bool:
    call = statement.call
    return call is not None and call.op.name == name and call.place == place


def _only(
    readers: dict[str, list[Statement]], statement: Statement | None, returned: Collection[str]
) -> Statement | None:
    """The statement that alone reads the result of another one."""
    name = statement.outs[0] if statement else ""
    found = readers.get(name, [])
    return found[0] if len(found) == 1 and name not in returned else None


def _adds_across(total: Statement, name: str, by_name: dict[str, Statement]) -> bool:
    """Whether a statement reads the transpose of an array in order beside others in order: its result is in order either way."""
    element = total.element
    if element is None or element.move is not None or not _in_order(element.result):
        return False
    for operand, layout in zip(element.operands, element.layouts, strict=True):
        if operand == name:
            if len(layout.shape) < MATRIX or not _across(layout):
                return False
        elif layout.shape != element.result.shape or not (_in_order(layout) and _always_in_order(operand, by_name)):
            return False
    return True


def _always_in_order(name: str, by_name: dict[str, Statement]) -> bool:
    """Whether a value lies in order whatever the strides of what it is computed of are, as a product does, and sums of these."""
    statement = by_name.get(name)
    if statement is None or (statement.call is not None and statement.call.op.name == "matmul"):
        return statement is not None
    element = statement.element
    return (
        element is not None
        and element.move is None
        and all(layout.shape == element.result.shape for layout in element.layouts)
        and all(_always_in_order(operand, by_name) for operand in element.operands)
    )


def _in_order(layout: Layout) -> bool:
    return layout.strides == _steps(layout.shape, layout.dtype.itemsize)


def _across(layout: Layout) -> bool:
    """Whether it is that of the transpose of an array in order."""
    *lead, rows, columns = layout.shape
    *before, down, across = _steps((*lead, columns, rows), layout.dtype.itemsize)
    return layout.strides == (*before, across, down)


def _steps(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The strides of an array in order whose elements have so many bytes."""
    return tuple([size * math.prod(shape[k + 1 :]) for k in range(len(shape))])


def _replaced(program: Program, statement: Statement, turned: Collection[str], added: dict[str, str]) -> Statement:
    """The statement, or the one in its place."""
    name = statement.outs[0] if statement.outs else ""
    if name in turned and statement.call is not None:
        text = f"{program.constant(_product)}({', '.join(statement.reads)})"
        return statement._replace(text=text, call=statement.call._replace(turned=True))
    element = statement.element
    if name in added and element is not None:
        operands = zip(element.operands, element.layouts, strict=True)
        layouts = tuple([element.result if operand == added[name] else layout for operand, layout in operands])
        return statement._replace(element=element._replace(layouts=layouts))
    return statement


def _product(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """xᵀ g, computed as gᵀ x."""
    found: np.ndarray = _kernels.product(np, g.swapaxes(-1, -2), x).swapaxes(-1, -2)
    return found

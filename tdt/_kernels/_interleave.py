"""Elements of two small arrays in turn, such as the real and imaginary parts of complex numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tdt._kernels._code import SIZES, Code, Value
from tdt._kernels._gufunc import Operand, for_arrays, generalized

VECTOR = 32  # bytes of each array that are written at a time
KINDS = {"f": "float", "d": "double"}


@generalized("(n),(n)->(n,t)", vectorize=False)
def _interleaved(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """x and y, whose elements lie side by side, as those of the result do, for which t is 2."""
    x, y, out = (operand.address for operand in operands)
    kind, n = KINDS[letter], sizes[0]
    many = VECTOR // SIZES[kind]
    whole = n // many * many
    places = [k // 2 + many * (k % 2) for k in range(2 * many)]
    with code.loop(0, whole, many) as i:
        code.store(code.shuffle(code.load(kind, x, i, many), code.load(kind, y, i, many), places), out, i * 2)
    with code.loop(whole, n) as i:
        for k, array in enumerate((x, y)):
            code.store(code.load(kind, array, i), out, i * 2 + k)


def prepared_pairs(
    function: Callable[..., np.ndarray], x: np.ndarray, y: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """`function`, which makes complex numbers of contiguous arrays, for those of one shape and of float32 or float64."""
    out, letter = np.empty(x.shape, np.result_type(x.dtype, np.complex64)), x.dtype.char
    operands = [x.reshape(-1), y.reshape(-1)]
    return for_arrays(
        function, _interleaved(letter * 3, letter), operands, [(out, out.reshape(-1).view(x.dtype).reshape(-1, 2))]
    )

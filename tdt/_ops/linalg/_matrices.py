"""Helpers of linear algebra: checks, batches matrix by matrix, LAPACK routines of SciPy."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import FLOATING_AND_COMPLEX, SCALAR_NAMES
from tdt._core.errors import LinAlgError
from tdt._core.tensor import Tensor
from tdt._kernels._pool import keep_blas_on_one_thread


def check_float(name: str, x: Tensor) -> None:
    """RuntimeError unless x is floating-point or complex."""
    if x.dtype.category not in FLOATING_AND_COMPLEX:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {SCALAR_NAMES[x.dtype]}")


def check_matrix(name: str, x: Tensor, square: bool = False, which: str = "A") -> None:
    """RuntimeError unless x is floating-point with at least 2 dimensions, the last two equal where `square`."""
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {which} must have at least 2 dimensions.")
    if square and x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: {which} must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
        )
    check_float(name, x)


def check_same_dtype(name: str, A: Tensor, B: Tensor, names: str = "AB") -> None:
    """RuntimeError unless both have one dtype."""
    if A.dtype is not B.dtype:
        a, b = names[0], names[1]
        raise RuntimeError(
            f"{name}: Expected {a} and {b} to have the same dtype, but found {a} of type {SCALAR_NAMES[A.dtype]} "
            f"and {b} of type {SCALAR_NAMES[B.dtype]} instead"
        )


def check_system(name: str, A: Tensor, B: Tensor, left: bool) -> None:
    """RuntimeError unless A is square and A X = B (left=False: X A = B) can be."""
    check_same_dtype(name, A, B)
    check_matrix(name, A, square=True)
    check_matrix(name, B, which="B")
    if (B.shape[-2] if left else B.shape[-1]) != A.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


def check_info(name: str, info: Tensor, words: str) -> None:
    """LinAlgError where one of LAPACK's codes is not 0; `{}` in `words` becomes the code."""
    codes = _backend.to_device(info._a, _backend.CPU)
    if codes.any() if codes.ndim else codes.item():
        at = int(codes.reshape(-1).nonzero()[0][0])
        where = f"(Batch element {at}): " if codes.ndim else ""
        raise LinAlgError(f"{name}: {where}{words.format(codes.reshape(-1)[at])}")


@contextlib.contextmanager
def converging(words: str) -> Iterator[None]:
    """Say an iteration's failure in PyTorch's words."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise LinAlgError(words) from None


def raising(xp: ModuleType) -> AbstractContextManager[Any]:
    """A block in which CuPy raises an error for a singular matrix, as NumPy does; by default it returns nan."""
    return nullcontext() if xp is np else importlib.import_module("cupyx").errstate(linalg="raise")


def by_columns(a: Any) -> Any:
    """The same matrices with their columns in order in memory, as LAPACK leaves them and PyTorch hands them on."""
    return a.swapaxes(-1, -2).copy(order="C").swapaxes(-1, -2)


def columns(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Matrices of zeros, with their columns in order in memory."""
    return np.zeros((*shape[:-2], shape[-1], shape[-2]), dtype).swapaxes(-1, -2)


def each(function: Callable[..., Any], results: tuple[np.ndarray, ...], *batches: Any) -> Any:
    """`function` of the matrices of each element of the (broadcast) batches, its values written into `results`.

    It runs on the host; the results are returned to the device of the batches. LAPACK does not accept empty matrices: for
    them the results are returned unchanged.
    """
    arrays = [a if a.__class__ is np.ndarray else _backend.to_device(a, _backend.CPU) for a in batches]
    if all(a.ndim == 2 and a.size for a in arrays):
        for result, value in zip(results, function(*arrays), strict=True):
            result[...] = value
    elif all(a.size for a in arrays):
        if any(a.shape[:-2] != arrays[0].shape[:-2] for a in arrays):
            shape = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
            arrays = [np.broadcast_to(a, (*shape, *a.shape[-2:])) for a in arrays]
        batch = arrays[0].ndim - 2
        stacked = [a.reshape((-1, *a.shape[-2:])) for a in arrays]
        into = [r.reshape((-1, *r.shape[batch:])) for r in results]  # views: their batch lies in order
        for at, matrices in enumerate(zip(*stacked, strict=True)):
            for result, value in zip(into, function(*matrices), strict=True):
                result[at] = value
    if arrays[0] is batches[0]:
        return results
    home = _backend.device_of(batches[0])
    return tuple(_backend.to_device(r, home) for r in results)


def no_derivative(record: Any, name: str, *operands: str) -> None:
    """Make backward through `record` raise an error that PyTorch's function `name` has no derivative."""

    def absent(g: Any) -> Tensor:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    for operand in operands:
        record.vjp(operand)(absent)


def scipy_linalg(xp: ModuleType) -> ModuleType:
    """scipy.linalg, or CuPy's twin of it."""
    return _scipy_on_one_thread() if xp.__name__ == "numpy" else importlib.import_module("cupyx.scipy.linalg")


@functools.cache
def _scipy_on_one_thread() -> ModuleType:
    """scipy.linalg, whose BLAS is another library than NumPy's: its threads would fight with the pool's."""
    module = importlib.import_module("scipy.linalg")
    keep_blas_on_one_thread(importlib.import_module("scipy"))
    return module


@functools.cache
def lapack(name: str, char: str) -> Any:
    """LAPACK's routine for arrays of this type character, e.g. lapack("getrf", "d")."""
    return scipy_linalg(np).get_lapack_funcs(name, dtype=np.dtype(char))


@functools.cache
def blas(name: str, char: str) -> Any:
    """BLAS's routine for arrays of this type character."""
    return scipy_linalg(np).get_blas_funcs(name, dtype=np.dtype(char))

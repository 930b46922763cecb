"""Named tuples that ops with several results return, as `tdt.return_types.max`."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tdt import _about

if TYPE_CHECKING:  # the classes of tdt.linalg, which return_type makes
    from tdt._core.tensor import Tensor

    class linalg_svd(NamedTuple):
        U: Tensor
        S: Tensor
        Vh: Tensor

    class linalg_qr(NamedTuple):
        Q: Tensor
        R: Tensor

    class linalg_eigh(NamedTuple):
        eigenvalues: Tensor
        eigenvectors: Tensor

    class linalg_eig(NamedTuple):
        eigenvalues: Tensor
        eigenvectors: Tensor

    class linalg_slogdet(NamedTuple):
        sign: Tensor
        logabsdet: Tensor

    class linalg_lstsq(NamedTuple):
        solution: Tensor
        residuals: Tensor
        rank: Tensor
        singular_values: Tensor

    class linalg_lu(NamedTuple):
        P: Tensor
        L: Tensor
        U: Tensor

    class linalg_lu_factor(NamedTuple):
        LU: Tensor
        pivots: Tensor

    class linalg_lu_factor_ex(NamedTuple):
        LU: Tensor
        pivots: Tensor
        info: Tensor

    class linalg_ldl_factor(NamedTuple):
        LD: Tensor
        pivots: Tensor

    class linalg_ldl_factor_ex(NamedTuple):
        LD: Tensor
        pivots: Tensor
        info: Tensor

    class linalg_inv_ex(NamedTuple):
        inverse: Tensor
        info: Tensor

    class linalg_solve_ex(NamedTuple):
        result: Tensor
        info: Tensor

    class linalg_cholesky_ex(NamedTuple):
        L: Tensor
        info: Tensor


def return_type(name: str, fields: tuple[str, ...] = ("values", "indices")) -> Any:
    """The named tuple of an op with several outputs, e.g. `.values` and `.indices`."""
    return _class_of(name, fields)


@functools.cache
def _class_of(name: str, fields: tuple[str, ...]) -> Any:
    def shown(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"{_about.prefix}.return_types.{name}(\n{parts})"

    def new(cls: Any, *values: Any) -> Any:
        values = values[0] if len(values) == 1 else values  # PyTorch's classes take one sequence
        if len(values) != len(fields):
            raise TypeError(f"{cls.__module__}.{name}() takes a {len(fields)}-sequence ({len(values)}-sequence given)")
        return tuple.__new__(cls, values)

    cls = cast(Any, namedtuple)(name, fields)
    cls.__new__ = staticmethod(new)
    cls.__module__, cls.__repr__ = f"{_about.prefix}.return_types", shown
    cls.__reduce__ = lambda self: (_named, (name, fields, tuple(self)))  # the class is not an attribute of a module
    return cls


def _named(name: str, fields: tuple[str, ...], values: tuple) -> Any:
    """Recreate a named tuple from its pickle."""
    return _class_of(name, fields)(*values)

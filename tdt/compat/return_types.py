"""`torch.return_types`: the classes of the named tuples that ops with several results return.

>>> import tdt
>>> isinstance(tdt.tensor([1.0, 3.0]).topk(1), tdt.return_types.topk)
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.return_types import return_type
from tdt.compat.utils import _pytree

# The fields of each class, and the operations that return it.
_FIELDS = {
    "values indices": "cummax cummin kthvalue max median min mode nanmedian sort topk",
    "min max": "aminmax",
    "mantissa exponent": "frexp",
    "a tau": "geqrf",
    "hist bin_edges": "histogram histogramdd",
    "L info": "linalg_cholesky_ex",
    "eigenvalues eigenvectors": "linalg_eig linalg_eigh",
    "inverse info": "linalg_inv_ex",
    "LD pivots": "linalg_ldl_factor",
    "LD pivots info": "linalg_ldl_factor_ex",
    "solution residuals rank singular_values": "linalg_lstsq",
    "P L U": "linalg_lu lu_unpack",
    "LU pivots": "linalg_lu_factor",
    "LU pivots info": "linalg_lu_factor_ex",
    "Q R": "linalg_qr qr",
    "sign logabsdet": "linalg_slogdet slogdet",
    "result info": "linalg_solve_ex",
    "U S Vh": "linalg_svd",
    "U S V": "svd",
    "solution cloned_coefficient": "triangular_solve",
}

all_return_types = [
    return_type(name, tuple(fields.split())) for fields, names in _FIELDS.items() for name in names.split()
]
_CLASSES = {kind.__name__: kind for kind in all_return_types}
globals().update(_CLASSES)
# With out= too a result has the class of the operation.
globals().update({f"{name}_out": kind for name, kind in _CLASSES.items() if name != "histogramdd"})
__all__ = ["all_return_types", "pytree_register_structseq"]
__all__ += list(_CLASSES)


def pytree_register_structseq(cls: Any) -> None:
    """Make a class of named tuples a node of `torch.utils._pytree`: its elements are the children."""
    rebuild: Callable[..., Any] = lambda values, context: cls(values)  # noqa: E731
    _pytree.register_pytree_node(cls, lambda values: (list(values), None), rebuild)

"""How tensors print: aligned numbers, long dimensions cut, and what is not the default named at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import _backend, _dtype
from tdt._tensor import LEAF, Tensor

options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print: digits after the point, elements before cutting, elements kept at each edge, line width.

    >>> import tdt
    >>> tdt.set_printoptions(precision=2); print(tdt.tensor([1 / 3])); tdt.set_printoptions(profile="default")
    tensor([0.33])
    """
    profiles = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80, "sci_mode": None},
        "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80, "sci_mode": None},
    }
    if profile is not None:
        if profile not in profiles:
            raise ValueError(f"profile must be one of {', '.join(profiles)}, got {profile!r}")
        options.update(profiles[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({k: v for k, v in given.items() if v is not None})
    if profile is None:
        options["sci_mode"] = sci_mode


class _Formatter:
    """One width and notation for all numbers of a tensor."""

    def __init__(self, values: np.ndarray):
        self.integers = values.dtype.kind in "biu"
        self.int_mode, self.sci, self.width = True, False, 1
        if self.integers:
            self.width = max((len(str(v)) for v in values.tolist()), default=1)
            return
        counted = values[np.isfinite(values) & (values != 0)]  # as in PyTorch, the others do not widen the column
        finite = np.abs(counted.astype(np.float64))
        if finite.size:
            low, high = finite.min(), finite.max()
            self.int_mode = bool((np.ceil(finite) == finite).all())
            self.sci = high / low > 1000.0 or high > 1.0e8 or (not self.int_mode and low < 1.0e-4)
        if options["sci_mode"] is not None:
            self.sci = options["sci_mode"]
        self.width = max((len(self.number(v)) for v in counted.tolist()), default=1)

    def number(self, v: Any) -> str:
        """One number without padding."""
        if self.integers:
            return str(v)
        if self.sci:
            return f"{v:.{options['precision']}e}"
        if self.int_mode:
            return f"{v:.0f}." if math.isfinite(v) else str(v)
        return f"{v:.{options['precision']}f}"

    def __call__(self, v: Any) -> str:
        return self.number(v).rjust(self.width)


class _ComplexFormatter:
    """Real and imaginary parts, each aligned."""

    def __init__(self, values: np.ndarray):
        self.real, self.imag = _Formatter(values.real), _Formatter(values.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, v: complex) -> str:
        imag = self.imag.number(v.imag).lstrip()
        return self.real(v.real) + ("" if imag.startswith("-") else "+") + imag + "j"


def _cut(a: np.ndarray) -> np.ndarray:
    """The elements that are shown: the edges of long dimensions."""
    edge = options["edgeitems"]
    for axis, n in enumerate(a.shape):
        if n > 2 * edge:
            a = np.concatenate([a.take(range(edge), axis), a.take(range(n - edge, n), axis)], axis)
    return a


def _lines(a: np.ndarray, indent: int, form: Any, cut: bool) -> str:
    edge = options["edgeitems"]
    skips = cut and a.ndim > 0 and a.shape[0] > 2 * edge
    if a.ndim == 0:
        return form(a.item())
    rows = [*range(edge), None, *range(len(a) - edge, len(a))] if skips else list(range(len(a)))
    if a.ndim == 1:
        per_line = max(1, (options["linewidth"] - indent) // (form.width + 2))
        shown = [" ..." if i is None else form(a[i].item()) for i in rows]
        lines = [", ".join(shown[i : i + per_line]) for i in range(0, len(shown), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if i is None else _lines(a[i], indent + 1, form, cut) for i in rows]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def tensor_repr(t: Tensor, name: str = "tensor") -> str:
    """The text that `repr` gives, e.g. `tensor([1., 2.], requires_grad=True)`."""
    notes = []
    if t.is_cuda:
        notes.append(f"device='{t.device}'")
    if t.is_sparse:
        body = f"indices={tensor_repr(t._indices())}, values={tensor_repr(t._values())}, size={tuple(t.shape)}, nnz={t._nnz()}"
        notes.append("layout=tdt.sparse_coo")
    else:
        a = _backend.to_device(t._a, _backend.CPU)
        a = a.astype(np.float32) if t.dtype is _dtype.bfloat16 else a
        if a.size == 0:
            body = "[]"
            if a.ndim != 1:
                notes.append(f"size={tuple(a.shape)}")
        else:
            cut = a.size > options["threshold"]
            form = (_ComplexFormatter if a.dtype.kind == "c" else _Formatter)((_cut(a) if cut else a).reshape(-1))
            body = _lines(a, len(name) + 1, form, cut)
    default = _dtype.get_default_dtype()
    usual = (default,) if t._a.size == 0 else (default, default.to_complex(), _dtype.int64, _dtype.bool)
    if t.dtype not in usual:
        notes.append(f"dtype={t.dtype}")
    if t.grad_fn is not None:
        notes.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t._edge is LEAF:
        notes.append("requires_grad=True")
    return f"{name}({', '.join([body, *notes])})"

"""Printing of tensors: aligned numbers, summarised long dimensions, dtype and device if they are not the default."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from tdt import _about, _backend
from tdt._core import dtype as _dtype
from tdt._core.float8 import printed
from tdt._core.methods import method
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import LEAF, Tensor, wrap

PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
options: dict[str, Any] = {**PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: Literal["default", "short", "full"] | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    Args:
        precision: digits after the decimal point.
        threshold: number of elements above which a tensor is summarized.
        edgeitems: entries shown at each end of a summarized dimension.
        linewidth: characters per line.
        profile: a set of these values to start from.
        sci_mode: True: scientific notation; False: never; None: if the range of the values needs it.
    Raises:
        ValueError: when `profile` is unknown.

    >>> import tdt
    >>> tdt.set_printoptions(precision=2); print(tdt.tensor([1 / 3])); tdt.set_printoptions(profile="default")
    tensor([0.33])
    """
    if profile is not None:
        if profile not in PROFILES:
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
        options.update(PROFILES[profile])
    overrides = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({k: v for k, v in overrides.items() if v is not None})
    options["sci_mode"] = sci_mode


class _Formatter:
    """Formats all numbers of a tensor with the same width and notation."""

    def __init__(self, values: np.ndarray):
        self.integers = values.dtype.kind in "biu"
        self.int_mode, self.sci, self.width = True, False, 1
        if self.integers:
            self.width = max((len(str(v)) for v in values.tolist()), default=1)
            return
        counted = values[np.isfinite(values) & (values != 0)]  # as in PyTorch, the others do not widen the column
        if not counted.size:
            return
        finite = np.abs(counted.astype(np.float64))
        low, high = finite.min(), finite.max()
        self.int_mode = bool((np.ceil(finite) == finite).all())
        # Of float32 numbers PyTorch takes the quotient in double precision, as here.
        self.sci = (
            bool(high > 1000 * low or high > 1e8 or low < 1e-4) if options["sci_mode"] is None else options["sci_mode"]
        )
        self.width = max(len(self.number(v)) for v in counted.tolist())

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


def _edges(a: np.ndarray) -> np.ndarray:
    """The elements to print: the edges of long dimensions."""
    edge = options["edgeitems"]
    if not edge and a.ndim > 1:
        return a[:0]
    for axis, n in enumerate(a.shape):
        if n > 2 * edge and edge:
            a = np.concatenate([a.take(range(edge), axis), a.take(range(n - edge, n), axis)], axis)
    return a


def _lines(a: np.ndarray, indent: int, form: Any, cut: bool) -> str:
    edge = options["edgeitems"]
    if a.ndim == 0:
        return form(a.item())
    skips = cut and a.shape[0] > 2 * edge
    rows = [*range(edge), None, *range(len(a) - edge, len(a))] if skips else list(range(len(a)))
    if a.ndim == 1:
        per_line = max(1, (options["linewidth"] - indent) // (form.width + 2))
        shown = [" ..."[not edge :] if i is None else form(a[i].item()) for i in rows]
        lines = [", ".join(shown[i : i + per_line]) for i in range(0, len(shown), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if i is None else _lines(a[i], indent + 1, form, cut) for i in rows]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _body(t: Tensor, indent: int) -> str:
    """The elements as nested brackets."""
    a = _backend.to_device(t._a, _backend.CPU)
    a = printed(a)
    if not a.size:
        return "[]"
    cut = a.size > options["threshold"]
    form = (_ComplexFormatter if a.dtype.kind == "c" else _Formatter)((_edges(a) if cut else a).reshape(-1))
    return _lines(a, indent, form, cut)


def _part(name: str, t: Tensor, indent: int) -> str:
    """`name=tensor(…)` in the repr of a sparse tensor."""
    size = "" if t.numel() else f", size={tuple(t.shape)}"
    return f"{name}=tensor({_body(t, indent + len(name) + 8)}{size})"


def _append_notes(text: str, notes: list[str], indent: int, apart: bool) -> str:
    """Append notes such as the dtype, on a new line if the last one is full or `apart` is set."""
    length = len(text) - text.rfind("\n") + 1
    for note in notes:
        if apart or length + len(note) + 2 > options["linewidth"]:
            text, length, apart = text + ",\n" + " " * indent + note, indent + len(note), False
        else:
            text, length = text + ", " + note, length + len(note) + 2
    return text + ")"


@method("__repr__")
def tensor_repr(t: Tensor) -> str:
    """The `repr` of a tensor, e.g. `tensor([1., 2.], requires_grad=True)`."""
    name = "tensor" if type(t) is Tensor or _about.home(type(t)) == "tdt.nn.parameter" else type(t).__name__
    indent, size = len(name) + 1, f"size={tuple(t.shape)}"
    notes = [] if t.device.type == "cpu" else [f"device='{t.device}'"]
    default = _dtype.get_default_dtype()
    sparse = isinstance(t._a, SparseCOO)
    if sparse:
        body = (",\n" + " " * indent).join(_part(part, wrap(a), indent) for part, a in t._a.parts.items())
        notes += [size, f"nnz={t._nnz()}"]
    else:
        body = "..." if t.is_meta else _body(t, indent)
        if t.is_meta or (not options["edgeitems"] if t._a.size else t.ndim != 1):
            notes.append(size)
    shown = (t._a.size and not t.is_meta) or sparse
    if t.dtype not in ((default, default.to_complex(), _dtype.int64, _dtype.bool) if shown else (default,)):
        notes.append(f"dtype={t.dtype}")
    if sparse:
        notes.append(f"layout={t.layout}")
    if t.grad_fn is not None:
        notes.append(f"grad_fn=<{t.grad_fn.name().rpartition('::')[2]}>")
    elif t._edge is LEAF:
        notes.append("requires_grad=True")
    text = _append_notes(f"{name}({body}", notes, indent, t.is_sparse)
    return f"Parameter({text})" if hasattr(t, "_is_param") else text  # of a class that is not nn.Parameter

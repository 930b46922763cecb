"""Kernels by name, their conditions, and the switches that allow them."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tdt import _backend

When = Callable[[Sequence[Any], dict], bool]
F = TypeVar("F", bound=Callable[..., Any])
MOST_SAVED = 4096  # choices of a kernel by shape


# Plans, ufuncs, programs and kernels that calls have found; cleared when a kernel is switched or the default dtype changes.
UFUNCS: list[dict | Tiered] = []


class Switches:
    """Which kernels may be used.

    Attributes:
        kernels: any at all: not under `TDT_KERNELS=reference` nor after `tdt.backends.kernels(False)`.
        winograd: convolutions by Winograd's algorithm: not under `TDT_WINOGRAD=0` nor after `tdt.backends.winograd(False)`.
        tf32: products of float32 on a GPU may round their operands to ten bits: see `tdt.set_float32_matmul_precision`.
        cudnn: convolutions and attention on a GPU may be cuDNN's, and convolutions may round float32 operands if `conv_tf32`:
            see `tdt.backends.cudnn`.
        changes: how often one was set.
    """

    __slots__ = ("kernels", "winograd", "tf32", "cudnn", "conv_tf32", "changes")
    changes: int

    def __init__(self) -> None:
        object.__setattr__(self, "changes", 0)
        self.kernels = os.environ.get("TDT_KERNELS", "") != "reference"
        self.winograd = os.environ.get("TDT_WINOGRAD", "") != "0"
        self.tf32 = False
        self.cudnn = self.conv_tf32 = True

    def __setattr__(self, name: str, on: bool) -> None:
        object.__setattr__(self, name, on)
        object.__setattr__(self, "changes", self.changes + 1)
        forget()


FEW_CALLS = 100  # with small arrays, for which no code is loaded


def enabled() -> bool:
    """Whether kernels are in use."""
    return SWITCHES.kernels


def enable(on: bool) -> None:
    """Switch all kernels."""
    SWITCHES.kernels = on


def winograd_enabled() -> bool:
    """Whether convolutions may use Winograd's algorithm."""
    return SWITCHES.winograd


def enable_winograd(on: bool) -> None:
    """Allow or forbid Winograd's algorithm."""
    SWITCHES.winograd = on


def allow_tf32(on: bool) -> None:
    """Allow or forbid TF32 in products of matrices on a GPU."""
    SWITCHES.tf32 = on


def forget() -> None:
    """Let calls find their plans, ufuncs and kernels again."""
    for found in UFUNCS:
        found.clear()


SWITCHES = Switches()


class Found(dict):
    """Functions by a key, each looked for when it is first asked for, and again after `forget`.

    Args:
        first: takes the first `FEW_CALLS` calls of each, so that a short script loads no code.
    """

    def __init__(self, find: Callable[[Any], Callable], first: Callable | None = None):
        super().__init__()
        self.find, self.first = find, first
        UFUNCS.append(self)

    def __missing__(self, key: Any) -> Callable:
        found = self[key] = self.find(key) if self.first is None else self._counted(key, self.first)
        return found

    def _counted(self, key: Any, first: Callable) -> Callable:
        """`first`, until it has been called a few times."""
        left = FEW_CALLS

        def call(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                self[key] = self.find(key)
            return first(*args)

        return call


class Tiered:
    """A function of Python whose place machine code takes after `FEW_CALLS` calls, and again after `forget`.

    Callers use `call`, which is the function that is in use: to look at an attribute takes a fifth of a lookup in `Found`.

    Args:
        python: the function, so that a short script loads no code.
        load: gives the one in machine code, or, where there is none, another one.
    """

    __slots__ = ("call", "python", "load")
    call: Callable[..., Any]

    def __init__(self, python: Callable[..., Any], load: Callable[[], Callable[..., Any]]):
        self.python, self.load = python, load
        self.clear()
        UFUNCS.append(self)

    def clear(self) -> None:
        """Start with Python again."""
        left = FEW_CALLS

        def counted(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                self.call = self.load()
            return self.python(*args)

        self.call = counted


class Kernel:
    """A compiled form of a function for NumPy arrays, and the condition under which it applies.

    Attributes:
        half: whether it takes bfloat16 too where the condition holds for float32, as its own description says.
    """

    __slots__ = ("when", "function", "half")

    def __init__(self, when: When, function: Callable, half: bool = False):
        self.when, self.function, self.half = when, function, half


class GpuKernel(Kernel):
    """A kernel for CuPy's arrays. Its `when` is false for all of NumPy's, so that tables may hold kernels of both."""

    __slots__ = ("fits",)

    def __init__(self, fits: When, function: Callable):
        super().__init__(_never, function)
        self.fits = fits


def _never(arrays: Sequence[Any], attributes: dict) -> bool:
    return False


def prepares(
    function: Callable, *, strided: bool = False, large: bool = False, all_shapes: bool = False, half: bool = False
) -> Callable[[F], F]:
    """Let the decorated function prepare calls of `function`, a kernel or the forward of an op.

    It gets the arrays and attributes of a call, and `recorded`, and returns a function of other arrays of these shapes, strides
    and types, for which it has decided and looked up what it can; or None. That one gives all that `function` gives if calls
    are `recorded`, else the first result alone; where it raises an error, `function` is called instead. Its attribute `into`,
    if it has one, is a function that writes the result into one more array, which may be that of a single tensor.

    Args:
        strided: whether it is asked for arrays too that are not contiguous.
        large: whether it is asked for arrays of all sizes, where calls are not `recorded`.
        all_shapes: whether what is prepared depends on types alone: of an elementwise op, for contiguous arrays. It also takes
            one more array, for its result.
        half: whether it is asked for images of bfloat16 too, of a convolution's kernel, and where several threads compute it.
    """

    def decorate(prepare: F) -> F:
        function.prepare, function.prepares_strided = prepare, strided  # type: ignore[attr-defined]
        function.prepares_large, function.prepares_all_shapes = large, all_shapes  # type: ignore[attr-defined]
        function.prepares_half = half  # type: ignore[attr-defined]
        return prepare

    return decorate


KERNELS: dict[str, Kernel] = {}  # all kernels that loaded modules state, by path


def kernel(path: str, when: When, *, lines: bool = False, half: bool = False) -> Kernel:
    """The kernel at `path`, "module:function" in this package; the first call imports the module.

    lines: a kernel for images (N, C, H, W) that also takes (N, C, L), as images of one row.
    half: see `Kernel`.
    """
    assert path not in KERNELS, f"{path} is stated twice"
    registered = Kernel(when, lazy(path), half)
    registered.function = lazy(path, registered)
    KERNELS[path] = registered = _also_lines(registered) if lines else registered
    return registered


def gpu_kernel(path: str, when: When) -> Kernel:
    """The kernel at `path` for CuPy's arrays."""
    registered = GpuKernel(when, lazy(path))
    registered.function = lazy(path, registered)
    return registered


class ByShape(tuple[Kernel, ...]):
    """Kernels whose conditions depend on shapes, strides, types and settings alone: which one applies is saved for these."""

    def __init__(self, kernels: Sequence[Kernel]):
        self._found: dict[tuple, Kernel | None] = {}
        self._calls: dict[tuple, Callable | None] = {}
        UFUNCS.append(self._calls)

    def first(self, arrays: Sequence[Any], attributes: dict) -> Kernel | None:
        """The first that applies."""
        return self._first(key_of(arrays, attributes), arrays, attributes)

    def _first(self, key: tuple, arrays: Sequence[Any], attributes: dict) -> Kernel | None:
        try:
            return self._found[key]
        except KeyError:
            if len(self._found) >= MOST_SAVED:
                self._found.clear()
            found = self._found[key] = next((each for each in self if each.when(arrays, attributes)), None)
            return found

    def call(self, *arrays: Any, **attributes: Any) -> Callable | None:
        """The first that applies as a function of such arrays, from the second call on with all that it prepares; or None."""
        key = key_of(arrays, attributes)
        if call := self._calls.get(key):
            return call
        found = self._first(key, arrays, attributes)
        if found is None:
            return None
        prepare = getattr(found.function, "prepare", None) if key in self._calls else None
        prepared = prepare and prepare(*arrays, **attributes, recorded=True)
        call = prepared or functools.partial(found.function, **attributes)
        if len(self._calls) >= MOST_SAVED:
            self._calls.clear()
        self._calls[key] = call if key in self._calls else None
        return call


def key_of(arrays: Sequence[Any], attributes: dict) -> tuple:
    """All that the conditions of kernels depend on."""
    kinds = [None if a is None else (a.shape, a.strides, a.dtype) for a in arrays]
    return (SWITCHES.kernels, SWITCHES.winograd, *kinds, *attributes.items())


def chosen(kernels: Sequence[Kernel], xp: Any, *arrays: Any, **attributes: Any) -> Callable | None:
    """The first of `kernels` that applies to these arrays, or None."""
    return chosen_for(kernels, arrays, attributes) if xp is np else chosen_on_gpu(kernels, xp, arrays, attributes)


def chosen_on_gpu(kernels: Sequence[Kernel], xp: Any, arrays: Sequence[Any], attributes: dict) -> Callable | None:
    """`chosen`, of arrays of CuPy's or of whatever else is not NumPy."""
    if SWITCHES.kernels and _backend.is_gpu(xp):
        for each in kernels:
            if each.__class__ is GpuKernel and each.fits(arrays, attributes):
                return each.function
    return None


def chosen_for(kernels: Sequence[Kernel], arrays: Sequence[Any], attributes: dict) -> Callable | None:
    """`chosen`, of NumPy arrays in a sequence and attributes in a dictionary."""
    if kernels.__class__ is ByShape:
        found = kernels.first(arrays, attributes)
        return found and found.function
    for each in kernels:
        if each.when(arrays, attributes):
            return each.function
    return None


def lazy(path: str, holder: Kernel | None = None) -> Callable:
    """A function of a kernel module that is imported when it is first called.

    holder: gets the module's own function then, so that later calls are direct.
    """
    module, _, name = path.partition(":")
    loaded: list[Callable] = []

    def call(*args: Any, **attributes: Any) -> Any:
        if not loaded:
            loaded.append(getattr(importlib.import_module(f"tdt._kernels.{module}"), name))
        if holder is not None and holder.function is call:
            holder.function = loaded[0]
        return loaded[0](*args, **attributes)

    call.__name__ = call.__qualname__ = name
    return call


def _row_of_image(name: str, value: Any) -> Any:
    """An array (N, C, L), or a setting for it, as one for images of one row."""
    if isinstance(value, tuple):
        return (0 if name == "padding" else 1, *value)
    return value[:, :, None] if getattr(value, "ndim", 0) == 3 else value


def _also_lines(images: Kernel) -> Kernel:
    """A kernel for images (N, C, H, W) as one for (N, C, L) too, whose results are contiguous."""

    def lifted(arrays: Sequence[Any], attributes: dict) -> tuple[list[Any], dict]:
        return [_row_of_image("", a) for a in arrays], {k: _row_of_image(k, v) for k, v in attributes.items()}

    when = images.when

    def accepts(arrays: Sequence[Any], attributes: dict) -> bool:
        return when(*lifted(arrays, attributes)) if arrays[0].ndim == 3 else when(arrays, attributes)

    @functools.wraps(images.function)
    def call(*arrays: Any, **attributes: Any) -> Any:
        if arrays[0].ndim != 3:
            return images.function(*arrays, **attributes)
        rows, how = lifted(arrays, attributes)
        return np.ascontiguousarray(images.function(*rows, **how)[:, :, 0])

    @prepares(call, half=True)
    def prepare(*arrays: Any, **attributes: Any) -> Any:  # of gradients without `recorded`
        own = getattr(images.function, "prepare", None)
        half = arrays[0].itemsize == 2
        if half and not getattr(images.function, "prepares_half", False):
            return None
        if arrays[0].ndim != 3:
            return own and own(*arrays, **attributes)
        rows, how = lifted(arrays, attributes)
        compute = own and own(*rows, **how)
        how.pop("recorded", None)
        if compute is None and half:
            return None
        compute = compute or functools.partial(images.function, **how)
        of_lines = [a is not None and a.ndim == 3 for a in arrays]

        def of_rows(*arrays: Any) -> Any:
            out = compute(*[a[:, :, None] if line else a for a, line in zip(arrays, of_lines, strict=True)])
            return out if out is None else np.ascontiguousarray(out[:, :, 0])

        return of_rows

    return Kernel(accepts, call, images.half)


cudnn_version = lazy("_cudnn:version")

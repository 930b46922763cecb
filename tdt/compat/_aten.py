"""`torch.ops.aten`: tdt's functions by the names and overloads that PyTorch's own operators have.

>>> import tdt
>>> tdt.ops.aten.add.Tensor(tdt.ones(2), tdt.ones(2))
tensor([2., 2.])
>>> tdt.ops.aten.sum.dim_IntList
<OpOverload(op='aten.sum', overload='dim_IntList')>
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tdt
from tdt._core.tensor import Tensor
from tdt.compat._overloads import overloads_of
from tdt.compat._refusal import refused


class Overload:
    """One overload of an operator. All overloads of a name call the same function, which tells them by its arguments.

    Args:
        packet: the operator.
        name: "default", "Tensor", "dim_IntList", and the like.
    """

    def __init__(self, packet: Packet, name: str) -> None:
        self.overloadpacket, self._overloadname = packet, name
        self.__name__ = f"{packet.__name__}.{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.overloadpacket}.{self._overloadname}"

    def name(self) -> str:
        """The operator's name and that of the overload, such as "aten::add.Tensor"."""
        ending = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"aten::{self.overloadpacket.__name__}{ending}"


class Packet:
    """An operator with all its overloads, which are its attributes: `aten.add.Tensor`."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__, self._function, self._overloads = name, function, dict[str, Overload]()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(overloads_of(self.__name__))

    def __getattr__(self, name: str) -> Overload:
        known = () if name.startswith("_") else overloads_of(self.__name__)
        if name not in known and not (self.__name__ in INTERNAL and not name.startswith("_")):
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        return self._overloads.setdefault(name, Overload(self, name))

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"


def _index(input: Tensor, indices: list[Tensor | None]) -> Tensor:
    return input[tuple(builtins.slice(None) if i is None else i for i in indices)]


def _slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    dim = range(input.ndim)[dim]
    return input[(builtins.slice(None),) * dim + (builtins.slice(start, end, step),)]


def _to_copy(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool | None = None,
    non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    layouts = {} if memory_format is None else {"memory_format": memory_format}
    return input.to(device or input.device, dtype or input.dtype, non_blocking, copy=True, **layouts)


_REDUCTIONS = "none", "mean", "sum"
# Losses, with what their operators take after input and target; of these `reduction` is a number.
_LOSSES = {
    "binary_cross_entropy": ("weight", "reduction"),
    "cross_entropy_loss": ("weight", "reduction", "ignore_index", "label_smoothing"),
    "huber_loss": ("reduction", "delta"),
    "l1_loss": ("reduction",),
    "mse_loss": ("reduction",),
    "multi_margin_loss": ("p", "margin", "weight", "reduction"),
    "multilabel_margin_loss": ("reduction",),
    "nll_loss": ("weight", "reduction", "ignore_index"),
    "nll_loss2d": ("weight", "reduction", "ignore_index"),
    "smooth_l1_loss": ("reduction", "beta"),
    "soft_margin_loss": ("reduction",),
}  # fmt: skip
_OTHER_NAMES = {"cross_entropy_loss": "cross_entropy", "nll_loss2d": "nll_loss"}


def _loss(name: str) -> Callable[..., Tensor]:
    function = getattr(tdt.nn.functional, _OTHER_NAMES.get(name, name))
    names = _LOSSES[name]

    def loss(input: Tensor, target: Tensor, *args: Any, **options: Any) -> Tensor:
        options |= builtins.zip(names[: len(args)], args, strict=True)
        result: Tensor = function(input, target, **options | {"reduction": _REDUCTIONS[options.get("reduction", 1)]})
        return result

    return loss


def _elu(input: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    if scale == input_scale == 1:
        return tdt.nn.functional.elu(input, alpha)
    return tdt.where(input > 0, input * scale, (input * input_scale).expm1() * (alpha * scale))


def _max_unpool(input: Tensor, indices: Tensor, output_size: list[int], *args: Any) -> Tensor:
    first = -len(output_size)
    zeros = input.new_zeros((*input.shape[:first], math.prod(output_size)))
    return zeros.scatter(-1, indices.flatten(first), input.flatten(first)).unflatten(-1, tuple(output_size))


def _upsample(mode: str, n: int) -> Callable[..., Tensor]:
    """`upsample_…`: an output size, `align_corners` unless the mode is "nearest", and scales, in a list or one by one."""

    def upsample(
        input: Tensor, output_size: list[int] | None = None, *args: Any, align_corners: bool | None = None,
        scale_factors: Sequence[float] | None = None, **scales: float | None,
    ) -> Tensor:  # fmt: skip
        rest = list(args)
        if mode != "nearest" and align_corners is None:
            align_corners = rest.pop(0)
        if rest and isinstance(rest[0], (list, tuple)):
            scale_factors = rest[0]
        each = [*rest, *(scales[name] for name in builtins.sorted(scales))]  # scales_d, scales_h, scales_w
        factors = scale_factors or [s for s in each if s is not None] or None
        if factors and output_size is not None:
            of_factors = [math.floor(size * s) for size, s in builtins.zip(input.shape[2:], factors, strict=True)]
            if of_factors != list(output_size):
                raise NotImplementedError(
                    f"upsample: output_size {output_size} is not that of the scales, {of_factors}"
                )
            output_size = None
        return tdt.nn.functional.interpolate(input, output_size, factors, mode, align_corners)

    return upsample


def _native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False:
        return input.clone(), tdt.ones_like(input, dtype=tdt.bool)
    mask = tdt.empty_like(input, dtype=tdt.bool).bernoulli_(1 - p)
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def _out_of_place(name: str) -> Callable[..., Tensor]:
    def function(input: Tensor, *args: Any, **options: Any) -> Tensor:
        result: Tensor = getattr(input.clone(), name)(*args, **options)
        return result

    return function


_MODES = {"nearest": (1, 2, 3), "linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}

# Operators that no function of tdt has the name of, or one that takes or returns something else.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "index": _index,
    "slice": _slice,
    "_to_copy": _to_copy,
    **{
        f"adaptive_max_pool{n}d": functools.partial(
            getattr(tdt.nn.functional, f"adaptive_max_pool{n}d"), return_indices=True
        )
        for n in (2, 3)
    },
    "max_unpool2d": _max_unpool,
    "max_unpool3d": _max_unpool,
    **{f"upsample_{mode}{n}d": _upsample(mode, n) for mode, counts in _MODES.items() for n in counts},
    **{
        f"{name}_pad{n}d": lambda input, padding, mode=mode: tdt.nn.functional.pad(input, padding, mode)
        for name, mode in (("reflection", "reflect"), ("replication", "replicate"))
        for n in (1, 2, 3)
    },
    **{
        name: _out_of_place(f"{name}_")
        for name in ("copy", "exponential", "geometric", "log_normal", "uniform", "zero")
    },
    **{
        f"{name}_": functools.partial(getattr(tdt.nn.functional, name), inplace=True)
        for name in ("silu", "mish", "hardswish", "hardsigmoid", "relu6")
    },
    "native_dropout": _native_dropout,
    "log_sigmoid": tdt.nn.functional.logsigmoid,
    "affine_grid_generator": tdt.nn.functional.affine_grid,
    "lift_fresh": lambda input: input,
    "elu": _elu,
    "unfold": Tensor.unfold,
    "im2col": tdt.nn.functional.unfold,
    "col2im": tdt.nn.functional.fold,
    **{name: _loss(name) for name in _LOSSES},
    "alias": lambda input: input.view_as(input),
    "sym_size": lambda input, dim=None: tuple(input.shape) if dim is None else input.shape[dim],
    "_conj": lambda input: input.conj(),
    "_local_scalar_dense": lambda input: input.item(),
    "_sparse_addmm": lambda *args, **kwargs: tdt.sparse.addmm(*args, **kwargs),
    "_pin_memory": lambda input, device=None: input.pin_memory(),
    "_unsafe_view": lambda input, size: input.reshape(size),
    "_softmax": lambda input, dim, half_to_float: tdt.softmax(input, dim, tdt.float32 if half_to_float else None),
    "_log_softmax": lambda input, dim, half_to_float: tdt.log_softmax(
        input, dim, tdt.float32 if half_to_float else None
    ),
}
INTERNAL = set[str]()  # names of operators that are refused, of whose overloads nothing is known
_PREFIXES = ("linalg", "special", "fft", "sparse")


def _function(name: str) -> Callable[..., Any] | None:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name.startswith("__"):
        return None
    if name.startswith("_"):  # programs register functions for those that they never call
        INTERNAL.add(name)
        return refused(f"ops.aten.{name}", "it is internal to PyTorch; call the public function")
    homes: list[tuple[Any, str]] = [(tdt, name), (tdt.nn.functional, name), (Tensor, name)]
    prefix, _, rest = name.partition("_")
    if prefix in _PREFIXES:
        homes.append((getattr(tdt, prefix), rest))
    found = (getattr(home, attribute, None) for home, attribute in homes)
    return next((f for f in found if callable(f) and not isinstance(f, type)), None)


@functools.cache
def operator(name: str) -> Packet | None:
    """The operator of this name, always the same object; None where tdt has no function for it."""
    function = _function(name)
    return None if function is None else Packet(name, function)

"""`autocast`: mixed precision; matrix products and convolutions run in bfloat16 or float16, losses in float32."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tdt._backend import cuda_device_count
from tdt._backend.device import device as _device
from tdt._core import dtype as _dtype
from tdt._core.dtype import bfloat16, dtype, float16
from tdt._core.mode import _set, state
from tdt._core.tensor import Tensor
from tdt.autograd._autocast import Casting

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "autocast", "clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
    "set_autocast_dtype",
]  # fmt: skip

SUPPORTED = {"cpu": (bfloat16, float16), "cuda": (bfloat16, float16)}


class _Defaults(threading.local):
    """The defaults of autocast blocks, per thread."""

    def __init__(self) -> None:
        self.dtypes = {"cpu": bfloat16, "cuda": float16}
        self.cache = True


defaults = _Defaults()


class autocast:
    """Context manager (or decorator) for mixed precision: matrix products, convolutions and attention run in `dtype`,
    losses in float32. Parameters and their gradients stay float32. Blocks nest.

    Args:
        device_type: "cpu" or "cuda"; tensors on other devices are not cast.
        dtype: bfloat16 or float16; default: bfloat16 on the CPU, float16 on a GPU. Another dtype, or a missing GPU, disables
            the block with a warning.
        enabled: False turns autocast off inside an outer block.
        cache_enabled: cast a parameter once for all its uses, until the outermost block ends or the parameter changes.
    Raises:
        ValueError: when `device_type` is not a string.
        RuntimeError: when the device type is unknown.

    >>> import tdt
    >>> net = tdt.nn.Linear(2, 2)
    >>> with tdt.autocast("cpu"):
    ...     y = net(tdt.ones(1, 2))
    >>> y.dtype is tdt.bfloat16
    True
    """

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if _device(device_type).type not in SUPPORTED:
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'; tdt has 'cpu' and 'cuda'"
            )
        self.device, self.fast_dtype = device_type, defaults.dtypes[device_type] if dtype is None else dtype
        self.cache_enabled = defaults.cache if cache_enabled is None else cache_enabled
        self._enabled = enabled and self._possible()
        self._before: list[tuple[Any, bool]] = []

    def _possible(self) -> bool:
        if self.device == "cuda" and not cuda_device_count():
            warnings.warn("CUDA is not available: CuPy sees no GPU. Disabling autocast.", stacklevel=4)
            return False
        if self.fast_dtype not in SUPPORTED[self.device]:
            warnings.warn(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling autocast. "
                f"It has bfloat16 and float16, not {self.fast_dtype}",
                stacklevel=4,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        handler = state.handler
        self._before.append((handler, defaults.cache))
        outer, below = (handler.dtypes, handler.below) if isinstance(handler, Casting) else ({}, handler)
        dtypes = {**outer, self.device: self.fast_dtype} if self._enabled else _without(outer, self.device)
        defaults.cache = self.cache_enabled
        outer_casts = getattr(handler, "casts", None)
        casts = ({} if outer_casts is None else outer_casts) if self.cache_enabled else None
        _set({"handler": Casting(dtypes, below, casts) if dtypes else below})
        return self

    def __exit__(self, *error: Any) -> None:
        handler, defaults.cache = self._before.pop()
        _set({"handler": handler})

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast("F", wrapper)


def _without(dtypes: dict[str, dtype], device: str) -> dict[str, dtype]:
    return {name: value for name, value in dtypes.items() if name != device}


def _active() -> dict[str, dtype]:
    return state.handler.dtypes if isinstance(state.handler, Casting) else {}


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` supports a device type.

    >>> import tdt
    >>> tdt.amp.is_autocast_available("cpu"), tdt.amp.is_autocast_available("tpu")
    (True, False)
    """
    return device_type in SUPPORTED


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether an `autocast` block for a device type is active.

    >>> import tdt
    >>> with tdt.autocast("cpu"):
    ...     tdt.is_autocast_enabled("cpu")
    True
    """
    return device_type in _active()


def is_autocast_cpu_enabled() -> bool:
    """Whether an `autocast("cpu")` block is active.

    >>> import tdt
    >>> tdt.is_autocast_cpu_enabled()
    False
    """
    return is_autocast_enabled("cpu")


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype of the active block for a device type, or else the default dtype of such blocks.

    >>> import tdt
    >>> tdt.get_autocast_dtype("cpu") is tdt.bfloat16
    True
    """
    return _active().get(device_type, defaults.dtypes[device_type])


def get_autocast_cpu_dtype() -> dtype:
    """The autocast dtype of the CPU: `get_autocast_dtype("cpu")`.

    >>> import tdt
    >>> tdt.get_autocast_cpu_dtype() is tdt.bfloat16
    True
    """
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> dtype:
    """The autocast dtype of GPUs: `get_autocast_dtype("cuda")`.

    >>> import tdt
    >>> tdt.get_autocast_gpu_dtype() is tdt.float16
    True
    """
    return get_autocast_dtype("cuda")


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the default dtype of `autocast` blocks for a device type.

    >>> import tdt
    >>> tdt.set_autocast_dtype("cpu", tdt.bfloat16)
    """
    defaults.dtypes[device_type] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether autocast blocks cast a parameter once for all its uses, unless they say otherwise.

    >>> import tdt
    >>> tdt.is_autocast_cache_enabled()
    True
    """
    return defaults.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether autocast blocks cast a parameter once for all its uses, unless they say otherwise.

    >>> import tdt
    >>> tdt.set_autocast_cache_enabled(True)
    """
    defaults.cache = enabled


def clear_autocast_cache() -> None:
    """Forget the parameters that the active autocast block has cast.

    >>> import tdt
    >>> tdt.clear_autocast_cache()
    """
    if isinstance(state.handler, Casting) and state.handler.casts is not None:
        state.handler.casts.clear()


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Callable[..., Any]:
    """Decorator for `forward` of a Function: with `cast_inputs`, casts floating-point tensors and disables autocast.

    Args:
        device_type: "cpu" or "cuda": the device type whose autocast state counts and whose tensors are cast.
        cast_inputs: dtype for the tensor arguments, except float64 ones, inside an active autocast block; None changes
            nothing.

    >>> import tdt
    >>> class Double(tdt.autograd.Function):
    ...     @staticmethod
    ...     @tdt.amp.custom_fwd(device_type="cpu", cast_inputs=tdt.float32)
    ...     def forward(ctx, x):
    ...         return 2 * x
    >>> with tdt.autocast("cpu"):
    ...     Double.apply(tdt.ones(1, dtype=tdt.bfloat16))
    tensor([2.])
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    function = fwd

    @functools.wraps(function)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype, ctx._fwd_used_autocast = get_autocast_dtype(device_type), is_autocast_enabled(device_type)
        if cast_inputs is None or not ctx._fwd_used_autocast:
            return function(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return function(ctx, *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorator for `backward` of a Function with `custom_fwd`: runs it with the autocast state of the forward.

    Args:
        device_type: "cpu" or "cuda", the same as for `custom_fwd`.

    >>> import tdt
    >>> class Double(tdt.autograd.Function):
    ...     @staticmethod
    ...     @tdt.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     @tdt.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         print(tdt.is_autocast_enabled("cpu"))
    ...         return 2 * grad
    >>> x = tdt.ones(1, requires_grad=True)
    >>> with tdt.autocast("cpu"):
    ...     y = Double.apply(x)
    >>> y.backward()
    True
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    function = bwd

    @functools.wraps(function)
    def backward(ctx: Any, *args: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return function(ctx, *args)

    return backward


def _cast(value: Any, device_type: str, to: dtype) -> Any:
    """Cast the floating-point tensors in `value`, except float64, to dtype `to`."""
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.device.type == device_type and value.dtype is not _dtype.float64
        return value.to(to) if fits else value
    if isinstance(value, dict):
        return {_cast(key, device_type, to): _cast(item, device_type, to) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device_type, to) for item in value)
    return value

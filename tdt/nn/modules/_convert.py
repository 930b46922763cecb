"""Moving and casting a module's parameters and buffers: `to`, `float`, `cuda` and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from tdt._backend.device import as_device
from tdt._core.creation import empty_like
from tdt._core.dtype import bfloat16, dtype, float16, float32, float64
from tdt._core.memory_format import preserve_format
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._ops.shape.memory import _parse_to
from tdt.nn._types import Device
from tdt.nn.parameter import is_lazy


class Convertible:
    """The part of Module that changes where its tensors lie and what type they have."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    children: Callable[[], Iterator[Any]]
    parameters: Callable[[], Iterator[Any]]
    buffers: Callable[[], Iterator[Any]]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter, its gradient, and every buffer by `fn` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                parameter.data = fn(parameter.data)
                if parameter.grad is not None:
                    parameter.grad.data = fn(parameter.grad.data)
            for name, buffer in self._buffers.items():
                if is_lazy(buffer):
                    buffer.data = fn(buffer.data)
                elif buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and cast in place by `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)` or `memory_format=…`;
        returns self.

        The dtype is applied to floating-point and complex tensors only, channels_last to 4-d and 5-d tensors only.

        Raises:
            TypeError: when the dtype is neither floating point nor complex.

        >>> import tdt
        >>> tdt.nn.Linear(2, 2).to(tdt.float64).weight.dtype
        tdt.float64
        """
        target, kind, _, layout = _parse_to(args, kwargs)
        if kind is not None and not (kind.is_floating_point or kind.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={kind}")

        def convert(t: Tensor) -> Tensor:
            options: dict[str, Any] = {} if target is None else {"device": target}
            if kind is not None and (t.is_floating_point() or t.is_complex()):
                options["dtype"] = kind
            if layout is not preserve_format and not is_lazy(t) and t.dim() in (4, 5):
                options["memory_format"] = layout
            return t.to(**options) if options else t

        return self._apply(convert)

    def share_memory(self) -> Self:
        """Move parameters, their gradients and buffers to memory that all processes share: forked ones, and those that are
        sent the module.

        Views and aliases of them move along. RuntimeError for a parameter without a shape. Returns self.
        """
        from tdt._core.shared_memory import share  # loads multiprocessing

        tensors = [*self.parameters(), *self.buffers()]
        for t in tensors:
            if is_lazy(t):
                t.share_memory_()  # raises
        share([*tensors, *(p.grad for p in self.parameters() if p.grad is not None)])
        return self

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Move to `device` without copying: parameters and buffers hold whatever the new memory held.

        >>> import tdt
        >>> tdt.nn.Linear(2, 3).to_empty(device="cpu").weight.shape
        tdt.Size([3, 2])
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: dtype) -> Self:
        """Cast every parameter and buffer, integer ones too."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self, kind: dtype) -> Self:
        return self._apply(lambda t: t.to(dtype=kind) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32."""
        return self._cast(float32)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64."""
        return self._cast(float64)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16."""
        return self._cast(float16)

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self._cast(bfloat16)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Device = None) -> Self:
        """Move to a GPU."""
        return self.to("cuda" if device is None else as_device(device))

    def xpu(self, device: Device = None) -> Self:
        """No device of tdt: RuntimeError, as from `ipu` and `mtia`."""
        return self.to("xpu")

    def ipu(self, device: Device = None) -> Self:
        """No device of tdt: RuntimeError."""
        return self.to("ipu")

    def mtia(self, device: Device = None) -> Self:
        """No device of tdt: RuntimeError."""
        return self.to("mtia")

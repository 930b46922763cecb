"""`GradScaler`: loss scaling for mixed precision, so that float16 gradients do not underflow."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tdt import _backend
from tdt._backend import cuda_device_count
from tdt._core.dtype import float32, promote_types
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._kernels import lazy, on_one_gpu
from tdt._ops.shape.join import stack

_unscale_on_gpu = lazy("optim_gpu:unscale")


def multiply(grads: list[Tensor], factor: float | Tensor) -> None:
    """Multiply gradients in place. A factor that is a tensor is rounded before as a number is by `mul_`."""
    for grad in grads:
        grad.mul_(factor.to(promote_types(grad.dtype, float32)) if isinstance(factor, Tensor) else factor)


def unscaled(grads: list[Tensor], inverse: float | Tensor) -> Tensor:
    """`multiply` gradients by `inverse`. Returns whether all are finite then."""
    multiply(grads, inverse)
    sums = [grad.float().abs().sum() for grad in grads]
    return stack([one.to(sums[0].device) for one in sums]).isfinite().all()


class GradScaler:
    """Scales the loss before `backward`, and unscales the gradients before the optimizer's step.

    If a gradient is infinite or NaN, the step is skipped and the scale is multiplied by `backoff_factor`; after
    `growth_interval` consecutive steps without one it is multiplied by `growth_factor`.

    Args:
        device: "cpu" or "cuda"; "cuda" without a GPU disables the scaler with a warning.
        enabled: if False, `scale` and `step` do nothing special.
    Raises:
        AssertionError: when `growth_factor` is not above 1, or `backoff_factor` not below 1.

    >>> import tdt
    >>> net = tdt.nn.Linear(1, 1)
    >>> optimizer = tdt.optim.SGD(net.parameters(), lr=0.1)
    >>> scaler = tdt.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(net(tdt.ones(1, 1)).sum()).backward()
    >>> net.bias.grad
    tensor([8.])
    >>> scaler.step(optimizer); scaler.update()
    >>> net.bias.grad
    tensor([1.])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda" and not cuda_device_count():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError(f"The growth factor must be > 1.0. It is {growth_factor}")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0. It is {backoff_factor}")
        self._device, self._enabled = device, enabled
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._version = 0  # how often the scale was set from outside
        self._used = False  # whether `scale` was called
        self._found: dict[int, bool] = {}  # by optimizer, since the last update: whether a gradient was not finite
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or the tensors of a list or tuple, by the scale.

        Raises:
            ValueError: when `outputs` contains anything else.
        """
        if not self._enabled:
            return outputs
        self._used = True
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(output) for output in outputs)
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}")

    def _check_used(self, what: str) -> None:
        if not self._used:
            raise AssertionError(f"Attempted {what} but _scale is None.  Was scaler.scale(loss) called before?")

    def unscale_(self, optimizer: Any) -> None:
        """Unscale the gradients, for example before gradient clipping. At most once between two updates.

        Raises:
            AssertionError: when `scale` was never called.
            RuntimeError: when called a second time, or after `step`, since the last update.
        """
        if not self._enabled:
            return
        self._check_used("unscale_")
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if id(optimizer) in self._found:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        inverse = 1.0 / self._scale
        with no_grad():
            if arrays := on_one_gpu(grads):
                with _backend.on_gpu_of(arrays[0]):
                    found = _backend.gpu().zeros(1, "i")
                    _unscale_on_gpu(arrays, inverse, found)
                for grad in grads:
                    grad._st.bump_version()
                self._found[id(optimizer)] = bool(_backend.number(found))
                return
            finite = not grads or bool(unscaled(grads, inverse))  # one read
        self._found[id(optimizer)] = not finite

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)`, unless a gradient is infinite or NaN; calls `unscale_` first if that was not done.

        Raises:
            AssertionError: when `scale` was never called.
            RuntimeError: when `closure` is given, or `step` was already called since the last update.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Decrease the scale after a skipped step, increase it after `growth_interval` steps; or set it to `new_scale`.

        Raises:
            AssertionError: when `scale` was never called, or no gradients were unscaled since the last update and
                `new_scale` is None.
        """
        if not self._enabled:
            return
        self._check_used("update")
        if new_scale is not None:
            self._scale, self._version = float(new_scale), self._version + 1
        elif not self._found:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                larger = self._scale * self._growth_factor
                self._scale, self._growth_tracker = larger if math.isfinite(larger) else self._scale, 0
        self._found.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        """The scale; 1.0 if the scaler is disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows after `growth_interval` steps without infinities."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale is multiplied after a skipped step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of consecutive steps without infinities after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the growth interval."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The state for resuming: scale, factors and counters; empty if the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of `state_dict()`; a disabled scaler ignores it.

        Raises:
            RuntimeError: when the state is empty.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale, self._growth_tracker = float(state_dict["scale"]), state_dict["_growth_tracker"]
        self._version += 1
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

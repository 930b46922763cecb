"""Activation layers: each calls its function."""

from __future__ import annotations

import warnings
from typing import Any

from tdt._core.creation import empty
from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn import init
from tdt.nn.modules.attention import MultiheadAttention  # noqa: F401  (PyTorch has it here)
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter


def _settings(layer: Module, *names: str) -> str:
    """`name=value` of these attributes, and `inplace=True` where it is."""
    parts = [f"{name}={getattr(layer, name)}" for name in names]
    return ", ".join(parts + ["inplace=True"] * bool(getattr(layer, "inplace", False)))


# A layer is an instance of another one only where it is in PyTorch; what they share is in these.
class _InPlace(Module):
    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _settings(self)


class _WithAlpha(Module):
    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def extra_repr(self) -> str:
        return _settings(self, "alpha")


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class _AlongDim(Module):
    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return _settings(self, "dim")


class ReLU(_InPlace):
    """max(x, 0), in place if `inplace`.

    >>> import tdt
    >>> tdt.nn.ReLU()(tdt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SiLU(_InPlace):
    """x sigmoid(x).

    >>> import tdt
    >>> tdt.nn.SiLU()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x tanh(softplus(x)).

    >>> import tdt
    >>> tdt.nn.Mish()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_InPlace):
    """1.0507 times ELU with alpha = 1.6733, which keep mean 0 and variance 1.

    >>> import tdt
    >>> tdt.nn.SELU()(tdt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """(x + 3) / 6 moved into [0, 1].

    >>> import tdt
    >>> tdt.nn.Hardsigmoid()(tdt.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """x hardsigmoid(x).

    >>> import tdt
    >>> tdt.nn.Hardswish()(tdt.tensor([1.0, 4.0]))
    tensor([0.6667, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardtanh(Module):
    """x moved into [min_val, max_val]. AssertionError unless min_val < max_val.

    >>> import tdt
    >>> tdt.nn.Hardtanh(0.0, 1.0)(tdt.tensor([-1.0, 0.5, 2.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ):
        super().__init__()
        for old, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{old[:-2]}`", FutureWarning, stacklevel=2
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _settings(self, "min_val", "max_val")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    >>> import tdt
    >>> tdt.nn.ReLU6()(tdt.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _settings(self)


class Threshold(Module):
    """x where it is above `threshold`, else `value`.

    >>> import tdt
    >>> tdt.nn.Threshold(0.5, 9.0)(tdt.tensor([-1.0, 2.0]))
    tensor([9., 2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _settings(self, "threshold", "value")


class Hardshrink(_Shrink):
    """x, or 0 where |x| is at most `lambd`.

    >>> import tdt
    >>> tdt.nn.Hardshrink()(tdt.tensor([-2.0, 0.5, 2.0]))
    tensor([-2.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by `lambd`, and not beyond.

    >>> import tdt
    >>> tdt.nn.Softshrink()(tdt.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.5000,  0.0000,  1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """x above 0, `negative_slope` x below.

    >>> import tdt
    >>> tdt.nn.LeakyReLU(0.1)(tdt.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _settings(self, "negative_slope")


class RReLU(Module):
    """x above 0; below, x times a number drawn from [lower, upper), or, in evaluation, their mean.

    >>> import tdt
    >>> tdt.nn.RReLU(0.25, 0.75).eval()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _settings(self, "lower", "upper")


class PReLU(Module):
    """x above 0, `weight` x below: one learned weight, or one for each of `num_parameters` channels; first `init`.

    >>> import tdt
    >>> tdt.nn.PReLU()(tdt.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every weight to `init` again."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return _settings(self, "num_parameters")


class ELU(_WithAlpha):
    """x above 0, alpha (exp(x) - 1) below.

    >>> import tdt
    >>> tdt.nn.ELU()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_WithAlpha):
    """x above 0, alpha (exp(x / alpha) - 1) below.

    >>> import tdt
    >>> tdt.nn.CELU(0.5)(tdt.tensor([-1.0, 2.0]))
    tensor([-0.4323,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class Softplus(Module):
    """log(1 + exp(beta x)) / beta.

    >>> import tdt
    >>> tdt.nn.Softplus()(tdt.tensor([-1.0, 2.0]))
    tensor([0.3133, 2.1269])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return _settings(self, "beta", "threshold")


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import tdt
    >>> tdt.nn.Sigmoid()(tdt.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class LogSigmoid(Module):
    """log(sigmoid(x)).

    >>> import tdt
    >>> tdt.nn.LogSigmoid()(tdt.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import tdt
    >>> tdt.nn.Tanh()(tdt.tensor([0.0, 2.0]))
    tensor([0.0000, 0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class Tanhshrink(Module):
    """x - tanh(x).

    >>> import tdt
    >>> tdt.nn.Tanhshrink()(tdt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(Module):
    """x / (1 + |x|).

    >>> import tdt
    >>> tdt.nn.Softsign()(tdt.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class GELU(Module):
    """x times the normal distribution function of x; `approximate='tanh'` is faster and off by up to 5e-4.

    >>> import tdt
    >>> tdt.nn.GELU("tanh")
    GELU(approximate='tanh')
    """

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """The first half of the input along `dim` times the sigmoid of the second.

    >>> import tdt
    >>> tdt.nn.GLU()(tdt.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return _settings(self, "dim")


class Softmax(_AlongDim):
    """exp(x) scaled to sum to 1 along `dim`.

    >>> import tdt
    >>> tdt.nn.Softmax(dim=0)(tdt.tensor([1.0, 1.0]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of `Softmax`.

    >>> import tdt
    >>> tdt.nn.LogSoftmax(dim=0)(tdt.tensor([1.0, 1.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """`Softmax` of -x.

    >>> import tdt
    >>> tdt.nn.Softmin(dim=0)(tdt.tensor([0.0, 100.0])).round()
    tensor([1., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """`Softmax` over the channels of (C, H, W) or (N, C, H, W). ValueError for another number of dimensions.

    >>> import tdt
    >>> tdt.nn.Softmax2d()(tdt.zeros(4, 1, 1)).flatten()
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)

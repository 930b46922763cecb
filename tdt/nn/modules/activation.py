"""Activation layers: each calls its function."""

from __future__ import annotations

import warnings

from tdt._core.creation import empty
from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn import init
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.attention import MultiheadAttention  # noqa: F401  (PyTorch has it here)
from tdt.nn.modules.module import Module
from tdt.nn.modules.softmax import LogSoftmax, Softmax, Softmax2d, Softmin  # noqa: F401  (and these)
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


class ReLU(_InPlace):
    """Rectified linear unit: max(x, 0) of each element.

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.ReLU()(tdt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SiLU(_InPlace):
    """Sigmoid linear unit, also called swish: x sigmoid(x) of each element.

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Elfwing, Uchibe and Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation", 2017.

    >>> import tdt
    >>> tdt.nn.SiLU()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """Smooth activation x tanh(softplus(x)) of each element.

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    >>> import tdt
    >>> tdt.nn.Mish()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_InPlace):
    """Scaled ELU: 1.0507 times `ELU` with alpha = 1.6733, constants that keep activations at mean 0 and variance 1.

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import tdt
    >>> tdt.nn.SELU()(tdt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """Piecewise linear sigmoid: (x + 3) / 6, clamped to [0, 1].

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Hardsigmoid()(tdt.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """Piecewise swish: x hardsigmoid(x) of each element.

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> import tdt
    >>> tdt.nn.Hardswish()(tdt.tensor([1.0, 4.0]))
    tensor([0.6667, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardtanh(Module):
    """Each element clamped to [min_val, max_val].

    Args:
        min_val, max_val: bounds of the result.
        inplace: write the result into the input's memory.
        min_value, max_value: deprecated names of min_val and max_val.
    Shape: input (*); result the same shape.
    Raises:
        AssertionError: when max_val is not greater than min_val.

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
    """Each element clamped to [0, 6].

    Args:
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Krizhevsky, "Convolutional Deep Belief Networks on CIFAR-10", 2010.

    >>> import tdt
    >>> tdt.nn.ReLU6()(tdt.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _settings(self)


class Threshold(Module):
    """Each element where it exceeds `threshold`, `value` elsewhere.

    Args:
        threshold: elements that do not exceed it are replaced.
        value: what the replaced elements become.
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.

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
    """Each element, with 0 in the place of those in [-lambd, lambd].

    Args:
        lambd: largest magnitude that becomes 0.
    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Hardshrink()(tdt.tensor([-2.0, 0.5, 2.0]))
    tensor([-2.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """Each element moved towards 0 by `lambd`; those in [-lambd, lambd] become 0.

    Args:
        lambd: largest magnitude that becomes 0, by which others shrink.
    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Softshrink()(tdt.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.5000,  0.0000,  1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """x where it is positive, `negative_slope` x elsewhere.

    Args:
        negative_slope: factor of negative elements.
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Maas, Hannun and Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic Models", 2013.

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
    """Randomized leaky ReLU: x where it is positive, x times a random slope elsewhere.

    In training the slope of each element is drawn uniformly from [lower, upper); in evaluation it is (lower + upper) / 2.

    Args:
        lower, upper: bounds of the random slope of negative elements.
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Xu et al., "Empirical Evaluation of Rectified Activations in Convolutional Network", 2015.

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
    """Leaky ReLU with a learned slope: x where it is positive, `weight` x elsewhere.

    Args:
        num_parameters: 1 for one slope, or the number of channels for a slope each.
        init: initial value of the slopes.
    Shape: input (*) or, for a slope per channel, (N, C, *); result the same shape; `weight` (num_parameters,).
    Source: He et al., "Delving Deep into Rectifiers", 2015.

    >>> import tdt
    >>> tdt.nn.PReLU()(tdt.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Device = None, dtype: Dtype = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to `init` again."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return _settings(self, "num_parameters")


class ELU(_WithAlpha):
    """Exponential linear unit: x where it is positive, alpha (exp(x) - 1) elsewhere.

    Args:
        alpha: minus the limit of the result for very negative elements.
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Clevert, Unterthiner and Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units", 2016.

    >>> import tdt
    >>> tdt.nn.ELU()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_WithAlpha):
    """Continuously differentiable ELU: x where it is positive, alpha (exp(x / alpha) - 1) elsewhere.

    Args:
        alpha: minus the limit of the result for very negative elements.
        inplace: write the result into the input's memory.
    Shape: input (*); result the same shape.
    Source: Barron, "Continuously Differentiable Exponential Linear Units", 2017.

    >>> import tdt
    >>> tdt.nn.CELU(0.5)(tdt.tensor([-1.0, 2.0]))
    tensor([-0.4323,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class Softplus(Module):
    """Smooth ReLU: log(1 + exp(beta x)) / beta of each element.

    Args:
        beta: steepness: the larger, the closer to ReLU.
        threshold: where beta x exceeds it, the result is x itself.
    Shape: input (*); result the same shape.

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
    """Logistic function 1 / (1 + exp(-x)) of each element.

    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Sigmoid()(tdt.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class LogSigmoid(Module):
    """Logarithm of the sigmoid: -log(1 + exp(-x)) of each element, without overflow.

    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.LogSigmoid()(tdt.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent of each element.

    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Tanh()(tdt.tensor([0.0, 2.0]))
    tensor([0.0000, 0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class Tanhshrink(Module):
    """x - tanh(x) of each element.

    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Tanhshrink()(tdt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(Module):
    """x / (1 + |x|) of each element, within (-1, 1).

    Shape: input (*); result the same shape.

    >>> import tdt
    >>> tdt.nn.Softsign()(tdt.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class GELU(Module):
    """Gaussian error linear unit: x Φ(x), where Φ is the distribution function of the standard normal.

    Args:
        approximate: "none" for the exact function, or "tanh" for the faster formula, which differs by up to 5e-4.
    Shape: input (*); result the same shape.
    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

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
    """Gated linear unit: the first half of the input along `dim` times the sigmoid of the second half.

    Shape: input (*, 2n, *), 2n elements along `dim`; result (*, n, *).
    Source: Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2017.

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

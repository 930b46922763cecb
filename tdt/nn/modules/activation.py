"""Activation layers: each calls its function."""

from __future__ import annotations

from tdt._tensor import Tensor
from tdt.nn import functional as F
from tdt.nn.modules.module import Module


class ReLU(Module):
    """max(x, 0), in place if `inplace`.

    >>> import tdt
    >>> tdt.nn.ReLU()(tdt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class SiLU(ReLU):
    """x sigmoid(x).

    >>> import tdt
    >>> tdt.nn.SiLU()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


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
        return f"negative_slope={self.negative_slope}" + ", inplace=True" * self.inplace


class ELU(Module):
    """x above 0, alpha (exp(x) - 1) below.

    >>> import tdt
    >>> tdt.nn.ELU()(tdt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + ", inplace=True" * self.inplace


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
        return f"beta={self.beta}, threshold={self.threshold}"


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import tdt
    >>> tdt.nn.Sigmoid()(tdt.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import tdt
    >>> tdt.nn.Tanh()(tdt.tensor([0.0, 2.0]))
    tensor([0.0000, 0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


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


class Softmax(Module):
    """exp(x) scaled to sum to 1 along `dim`.

    >>> import tdt
    >>> tdt.nn.Softmax(dim=0)(tdt.tensor([1.0, 1.0]))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """The logarithm of `Softmax`.

    >>> import tdt
    >>> tdt.nn.LogSoftmax(dim=0)(tdt.tensor([1.0, 1.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)

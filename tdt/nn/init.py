"""Filling tensors: every function writes into its tensor without recording, and returns it.

With the same seed the values are PyTorch's: bit for bit where they come from the uniform generator, within a few units in
the last place where they come from the normal one.
"""

from __future__ import annotations

import math
import warnings

from tdt._core.creation import empty, empty_like
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._random import Generator
from tdt.nn._deprecated import deprecated_alias

_LINEAR = frozenset(
    ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid")
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Factor for weights that keeps the variance of activations through `nonlinearity`.

    Args:
        nonlinearity: "linear", "conv1d" and other linear layers, "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        param: negative slope of leaky_relu; None stands for 0.01.
    Raises:
        ValueError: when `nonlinearity` is unknown or its slope is not a number.

    >>> import tdt
    >>> tdt.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1.0 if nonlinearity == "sigmoid" else 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(
        f"Unsupported nonlinearity {nonlinearity}; known: {', '.join(sorted(_LINEAR))}, tanh, relu, leaky_relu, selu"
    )


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills the tensor from the uniform distribution over [a, b).

    Shape: tensor (*); result the tensor itself.

    >>> import tdt
    >>> tdt.nn.init.uniform_(tdt.empty(100), 2.0, 3.0).floor().mean()
    tensor(2.)
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills the tensor from the normal distribution of the given mean and standard deviation.

    Shape: tensor (*); result the tensor itself.

    >>> import tdt
    >>> tdt.nn.init.normal_(tdt.empty(1000), mean=5.0).mean().round()
    tensor(5.)
    """
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Generator | None = None) -> Tensor:  # fmt: skip
    """Fills the tensor from a normal distribution restricted to [a, b]; warns when [a, b] is far from the mean.

    If [a, b] holds at least 30 % of the distribution, normal numbers are drawn until all are inside; else uniform ones,
    accepted in proportion to the density. Each round draws for the whole tensor, as PyTorch does.

    Shape: tensor (*); result the tensor itself.
    Source: rejection sampling, von Neumann, "Various Techniques Used in Connection with Random Digits", 1951.

    >>> import tdt
    >>> bool((tdt.nn.init.trunc_normal_(tdt.empty(100), std=9.0).abs() <= 2).all())
    True
    """

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    often = below(b) - below(a) > 0.3
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    low, high = (tensor.new_tensor(bound).item() for bound in (a, b))
    fresh, waiting = tensor, None
    while waiting is None or waiting.any():
        if often:
            fresh.normal_(mean, std, generator=generator)
            outside = (fresh < low) | (fresh > high)
        else:
            fresh.uniform_(a, b, generator=generator)
            chance = ((fresh - mean) / std) ** 2 * -0.5 - peak
            outside = empty_like(tensor).uniform_(generator=generator).log_() > chance
        if waiting is None:
            fresh, waiting = empty_like(tensor), outside
        else:
            tensor.copy_(fresh.where(waiting, tensor))
            waiting = waiting & outside
    return tensor


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills the tensor with the value `val`.

    Shape: tensor (*); result the tensor itself.

    >>> import tdt
    >>> tdt.nn.init.constant_(tdt.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills the tensor with ones.

    Shape: tensor (*); result the tensor itself.

    >>> import tdt
    >>> tdt.nn.init.ones_(tdt.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills the tensor with zeros.

    Shape: tensor (*); result the tensor itself.

    >>> import tdt
    >>> tdt.nn.init.zeros_(tdt.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fills the tensor with the identity matrix.

    Shape: tensor (rows, columns); result the tensor itself.
    Raises:
        ValueError: when the tensor does not have 2 dimensions.

    >>> import tdt
    >>> tdt.nn.init.eye_(tdt.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_()
    tensor.diagonal().fill_(1)
    return tensor


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills a convolution weight so that the layer copies its input channels, as many as it has outputs for.

    Args:
        groups: number of groups of the convolution; each copies its own channels.
    Shape: tensor (C_out, C_in / groups, *), 3 to 5 dimensions; result the tensor itself.
    Raises:
        ValueError: when the number of dimensions is another one, or `groups` does not divide the first.
    Source: Zagoruyko and Komodakis, "DiracNets", 2017.

    >>> import tdt
    >>> tdt.nn.init.dirac_(tdt.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError(f"dim 0 must be divisible by groups; got size {tensor.size(0)} and groups {groups}")
    per_group = tensor.size(0) // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(per_group, tensor.size(1))):
            tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs reach one output and how many outputs one input reaches: (in, out) times the kernel's size."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions; "
                         f"got shape {tuple(tensor.shape)}")  # fmt: skip
    kernel = math.prod(tensor.shape[2:])
    return tensor.size(1) * kernel, tensor.size(0) * kernel


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    name = mode.lower()
    if name not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[name == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills the tensor from the uniform distribution of variance 2 gain² / (fan_in + fan_out).

    Args:
        gain: factor for the nonlinearity, as `calculate_gain` returns it.
    Shape: tensor (fan_out, fan_in, *); result the tensor itself.
    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    >>> import tdt
    >>> bool((tdt.nn.init.xavier_uniform_(tdt.empty(3, 5)).abs() <= (6 / 8) ** 0.5).all())
    True
    """
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills the tensor from the normal distribution of variance 2 gain² / (fan_in + fan_out).

    Args:
        gain: factor for the nonlinearity, as `calculate_gain` returns it.
    Shape: tensor (fan_out, fan_in, *); result the tensor itself.
    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    >>> import tdt
    >>> tdt.nn.init.xavier_normal_(tdt.empty(100, 100)).std().round(decimals=2)
    tensor(0.1000)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))), generator)


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Generator | None = None) -> Tensor:  # fmt: skip
    """Fills the tensor from the uniform distribution of variance gain² / fan.

    Args:
        a: negative slope of leaky_relu; other nonlinearities ignore it.
        mode: "fan_in" keeps the variance of activations, "fan_out" that of gradients.
        nonlinearity: name whose `calculate_gain` is taken.
    Shape: tensor (fan_out, fan_in, *); result the tensor itself.
    Source: He et al., "Delving Deep into Rectifiers", 2015.

    >>> import tdt
    >>> w = tdt.nn.init.kaiming_uniform_(tdt.empty(3, 5), nonlinearity="relu")
    >>> bool((w.abs() <= (6 / 5) ** 0.5).all())
    True
    """
    if tensor.numel() == 0:
        return _nothing_to_fill(tensor)
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Generator | None = None) -> Tensor:  # fmt: skip
    """Fills the tensor from the normal distribution of variance gain² / fan.

    Args:
        a: negative slope of leaky_relu; other nonlinearities ignore it.
        mode: "fan_in" keeps the variance of activations, "fan_out" that of gradients.
        nonlinearity: name whose `calculate_gain` is taken.
    Shape: tensor (fan_out, fan_in, *); result the tensor itself.
    Source: He et al., "Delving Deep into Rectifiers", 2015.

    >>> import tdt
    >>> tdt.nn.init.kaiming_normal_(tdt.empty(100, 200), nonlinearity="relu").std().round(decimals=2)
    tensor(0.1000)
    """
    if tensor.numel() == 0:
        return _nothing_to_fill(tensor)
    return normal_(
        tensor, 0, calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode)), generator
    )


def _nothing_to_fill(tensor: Tensor) -> Tensor:
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return tensor


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with a random orthogonal matrix times `gain`: orthonormal rows or columns, whichever are fewer.

    It is the Q of a QR decomposition of normal numbers.

    Shape: tensor (rows, *), all dimensions but the first flattened to columns; result the tensor itself.
    Raises:
        ValueError: when the tensor has fewer than 2 dimensions.
    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning", 2013.

    >>> import tdt
    >>> w = tdt.nn.init.orthogonal_(tdt.empty(2, 3))
    >>> tdt.allclose(w @ w.T, tdt.eye(2), atol=1e-6)
    True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    flat = empty(rows, columns, dtype=tensor.dtype, device=tensor.device).normal_(0, 1, generator=generator)
    if rows < columns:
        flat = flat.t()
    from tdt import linalg

    q, r = linalg.qr(flat)
    q = q * r.diagonal().sign()  # the sign makes Q unique, so uniformly distributed
    if rows < columns:
        q = q.t()
    return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fills the tensor from a normal distribution, with the fraction `sparsity` of each column set to 0.

    Shape: tensor (rows, columns); result the tensor itself.
    Raises:
        ValueError: when the tensor does not have 2 dimensions.
    Source: Martens, "Deep learning via Hessian-free optimization", 2010.

    >>> import tdt
    >>> (tdt.nn.init.sparse_(tdt.empty(4, 2), sparsity=0.5) == 0).sum(0)
    tensor([2, 2])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    from tdt._ops.random.creation import randperm

    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        # PyTorch draws the rows from the global generator, whatever `generator` is.
        tensor[randperm(rows)[: math.ceil(sparsity * rows)], column] = 0
    return tensor


# PyTorch's internal names, which libraries call.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_

# Names that PyTorch deprecated: each warns and calls the function whose name ends in an underscore.
uniform = deprecated_alias(uniform_, "nn.init.uniform", "nn.init.uniform_")
normal = deprecated_alias(normal_, "nn.init.normal", "nn.init.normal_")
constant = deprecated_alias(constant_, "nn.init.constant", "nn.init.constant_")
eye = deprecated_alias(eye_, "nn.init.eye", "nn.init.eye_")
dirac = deprecated_alias(dirac_, "nn.init.dirac", "nn.init.dirac_")
xavier_uniform = deprecated_alias(xavier_uniform_, "nn.init.xavier_uniform", "nn.init.xavier_uniform_")
xavier_normal = deprecated_alias(xavier_normal_, "nn.init.xavier_normal", "nn.init.xavier_normal_")
kaiming_uniform = deprecated_alias(kaiming_uniform_, "nn.init.kaiming_uniform", "nn.init.kaiming_uniform_")
kaiming_normal = deprecated_alias(kaiming_normal_, "nn.init.kaiming_normal", "nn.init.kaiming_normal_")
orthogonal = deprecated_alias(orthogonal_, "nn.init.orthogonal", "nn.init.orthogonal_")
sparse = deprecated_alias(sparse_, "nn.init.sparse", "nn.init.sparse_")

__all__ = ["calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
           "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse", "sparse_",
           "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_",
           "zeros_"]  # fmt: skip

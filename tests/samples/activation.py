"""Samples of the activations, away from their kinks."""

import numpy as np
import scipy.special as sp

from tests.samples._sample import by_torch, call, samples, x

ANY = x(2, 3)
FAR = x(2, 3, seed=2) + 0.1  # no element lies on a bound below


def elu(a, alpha, scale, input_scale):
    return scale * np.where(a > 0, a, alpha * np.expm1(input_scale * a))


samples("leaky_relu", lambda a, slope: np.where(a > 0, a, slope * a), call(FAR, slope=0.1), elementwise=True)
samples("prelu", lambda a, w: np.where(a > 0, a, w * a), call(FAR, x(3)), call(FAR, x()), elementwise=True)
samples(
    "elu",
    elu,
    call(FAR, alpha=1.5, scale=1.0, input_scale=1.0),
    call(FAR, alpha=1.5, scale=2.0, input_scale=0.5),
    elementwise=True,
)
samples("mish", lambda a: a * np.tanh(np.logaddexp(0, a)), call(ANY), call(40 * ANY), elementwise=True)
samples(
    "softplus",
    lambda a, beta, threshold: np.logaddexp(0, beta * a) / beta,
    call(ANY, beta=2.0, threshold=20.0),
    elementwise=True,
)
samples("log_sigmoid", sp.log_expit, call(ANY), call(40 * ANY), elementwise=True)
samples(
    "gelu",
    by_torch(lambda torch, a, approximate: torch.nn.functional.gelu(a, approximate=approximate)),
    call(ANY, approximate="none"),
    call(ANY, approximate="tanh"),
    elementwise=True,
)
samples(
    "glu",
    lambda a, dim: np.multiply(*(f(h) for f, h in zip((np.asarray, sp.expit), np.split(a, 2, dim), strict=True))),
    call(x(3, 4), dim=1),
    call(x(2, 3, 2), dim=0),
    call(x(2, 0, 3), dim=0),
)
samples("hardtanh", lambda a, low, high: np.clip(a, low, high), call(FAR, low=-1.0, high=0.5), elementwise=True)
samples("hardsigmoid", lambda a: np.clip(a / 6 + 0.5, 0, 1), call(3 * FAR), elementwise=True)
samples("hardswish", lambda a: a * np.clip(a / 6 + 0.5, 0, 1), call(3 * FAR), elementwise=True)
samples("hardshrink", lambda a, width: a * (abs(a) > width), call(FAR, width=0.5), elementwise=True)
samples(
    "softshrink",
    lambda a, shift, width: np.sign(a) * np.maximum(abs(a) - shift, 0),
    call(FAR, shift=0.5, width=0.5),
    elementwise=True,
)
samples(
    "threshold",
    lambda a, threshold, value: np.where(a > threshold, a, value),
    call(FAR, threshold=0.2, value=7.0),
    elementwise=True,
)
samples(
    "rrelu_noise",
    None,
    call(np.arange(12.0).reshape(3, 4), lower=0.1, upper=0.3, generator=None),
    call(FAR, lower=0.2, upper=0.2, generator=None),
    why_no_oracle="random: tests/nn/test_activations.py compares its numbers with PyTorch's",
)

"""Samples of the random ops, chosen so that another dtype draws the same numbers."""

import numpy as np

from tests.samples._sample import call, samples, x

WHY = "random: tests/ops/test_random_functions.py compares its numbers with PyTorch's"

# Those that draw alike for every dtype; and chances so near 0 and 1 that draws of any width decide alike.
samples(
    "random_fill",
    None,
    call(x(3, 4), how="exponential", numbers=(1.0,), generator=None),
    call(x(5, 4).T, how="log_normal", numbers=(0.0, 0.5), generator=None),
    call(x(0, 4), how="exponential", numbers=(1.0,), generator=None),
    call(x(), how="bernoulli", numbers=(0.5,), generator=None),
    why_no_oracle=WHY,
)
samples("bernoulli", None, call(np.array([[0.001, 0.999], [0.999, 0.001]]), generator=None), why_no_oracle=WHY)
samples(
    "normal",
    lambda drawn, mean, std: drawn,
    call(x(3, 4), x(3, 1), 0.5),
    call(x(3, 4), x(3, 1), x(4, low=0.1)),
    call(x(), 1.0, x(low=0.1)),
)
samples(
    "multinomial",
    None,
    call(x(3, 4, low=0.1), count=2, replacement=False, generator=None),
    call(x(4, low=0.1), count=5, replacement=True, generator=None),
    why_no_oracle=WHY,
)
samples("poisson", None, call(x(3, 4, low=0.1), generator=None), call(x(low=0.1), generator=None), why_no_oracle=WHY)
# Chances so near 0 that no draw changes with them.
samples(
    "binomial",
    None,
    call(np.array([[3.0, 4.0], [7.0, 0.0]]), np.array([[1e-4, 2e-4], [1e-5, 0.5]]), generator=None),
    why_no_oracle=WHY,
)

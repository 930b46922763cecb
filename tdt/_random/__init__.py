"""Random numbers: generators, and functions that fill arrays from them in PyTorch's order and rounding.

`draws` is equal to PyTorch bit for bit, `continuous` within a few units in the last place; the public functions that
make tensors (`rand`, `randn`, …) are in `tdt._ops.random.creation`.
"""

from tdt._random._generator import (
    Generator,
    cuda_generator,
    default_generator,
    fork_rng,
    generator_for,
    get_rng_state,
    initial_seed,
    manual_seed,
    moved_since,
    position,
    seed,
    set_rng_state,
)
from tdt._random.choice import multinomial
from tdt._random.continuous import (
    cauchy,
    exponential,
    geometric,
    log_normal,
    normal,
)
from tdt._random.counts import binomial, gamma, poisson
from tdt._random.draws import (
    assign_in_memory_order,
    bernoulli,
    bernoulli_each,
    full_range,
    in_memory_order,
    integers,
    permutation,
    uniform,
)

__all__ = [
    "Generator",
    "assign_in_memory_order",
    "bernoulli",
    "bernoulli_each",
    "binomial",
    "cauchy",
    "cuda_generator",
    "default_generator",
    "exponential",
    "fork_rng",
    "full_range",
    "gamma",
    "generator_for",
    "geometric",
    "get_rng_state",
    "in_memory_order",
    "initial_seed",
    "integers",
    "log_normal",
    "manual_seed",
    "moved_since",
    "multinomial",
    "normal",
    "permutation",
    "poisson",
    "position",
    "seed",
    "set_rng_state",
    "uniform",
]

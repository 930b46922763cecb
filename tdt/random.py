"""PyTorch's `torch.random`: seeds and states of the default generators."""

from tdt._random import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def thread_safe_generator() -> Generator | None:
    """The generator of a DataLoader worker thread, else None; always None, as tdt's workers are processes.

    >>> import tdt
    >>> tdt.rand(2, generator=tdt.random.thread_safe_generator()).shape == (2,)
    True
    """
    return None

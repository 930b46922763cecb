"""Seeds and states of the GPUs' default generators. Without a GPU, seeding and setting states do nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tdt._core.tensor import Tensor
from tdt._random import Generator, cuda_generator
from tdt.cuda._devices import DeviceLike, device_count, index_of, is_available


def _all() -> list[Generator]:
    return [cuda_generator(index) for index in range(device_count())]


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator."""
    if is_available():
        cuda_generator(index_of(None)).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    for generator in _all():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the current GPU's generator with a random seed from the operating system."""
    if is_available():
        cuda_generator(index_of(None)).seed()


def seed_all() -> None:
    """Seed the generators of all GPUs with the same random seed from the operating system."""
    if is_available():
        manual_seed_all(Generator().seed())


def initial_seed() -> int:
    """The seed of the current GPU's generator."""
    return cuda_generator(index_of(None)).initial_seed()


def get_rng_state(device: DeviceLike = "cuda") -> Tensor:
    """The state of a GPU's generator, a uint8 tensor."""
    return cuda_generator(index_of(device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' generators."""
    return [generator.get_state() for generator in _all()]


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> None:
    """Restore the state of a GPU's generator."""
    if is_available():
        cuda_generator(index_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states of all GPUs' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)

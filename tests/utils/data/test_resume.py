"""A DataLoader's state: the batches after a resume are exactly those that an uninterrupted run would have given."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tdt
import tdt._random as R
import tdt.utils.data as data
from tests.utils.data.common import Noisy, Numbers, plain, tdt_side

SAMPLES, BATCH = 23, 4  # 6 batches

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class NoisyStream(data.IterableDataset):
    """A stream of 23 samples with noise; with workers, each gives a part."""

    def __iter__(self) -> Iterator[tuple]:
        info = data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for i in range(first, SAMPLES, step):
            yield i, tdt_side().rand(), np.random.rand(), random.random()


class Eager(data.Sampler):
    """Draws its order when an iterator is created, from Python's generator."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(range(SAMPLES), SAMPLES))

    def __len__(self) -> int:
        return SAMPLES


def loader(dataset: Any = None, **arguments: Any) -> data.DataLoader:
    return data.DataLoader(dataset or Noisy(SAMPLES), BATCH, **arguments)


MAKERS: dict[str, Callable[[], data.DataLoader]] = {
    "in order": lambda: loader(),
    "shuffled": lambda: loader(shuffle=True),
    "generator": lambda: loader(shuffle=True, generator=R.Generator().manual_seed(5)),
    "replacement": lambda: loader(
        sampler=data.RandomSampler(range(SAMPLES), True, 24, generator=R.Generator().manual_seed(5))
    ),
    "weighted": lambda: loader(sampler=data.WeightedRandomSampler(np.arange(SAMPLES) + 1.0, 22)),
    "eager sampler": lambda: loader(sampler=Eager()),
    "stream": lambda: loader(NoisyStream()),
    "1 worker": lambda: loader(shuffle=True, num_workers=1),
    "2 workers": lambda: loader(shuffle=True, num_workers=2),
    "2 workers, generator": lambda: loader(shuffle=True, num_workers=2, generator=R.Generator().manual_seed(5)),
    "2 workers, generator, batches of equal length": lambda: loader(
        shuffle=True, num_workers=2, generator=R.Generator().manual_seed(5), drop_last=True
    ),
    "3 workers": lambda: loader(sampler=Eager(), num_workers=3, prefetch_factor=1),
    "2 workers that stay": lambda: loader(shuffle=True, num_workers=2, persistent_workers=True),
    "2 workers, replacement": lambda: loader(
        num_workers=2, sampler=data.RandomSampler(range(SAMPLES), True, 24, generator=R.Generator().manual_seed(5))
    ),
    "2 workers, stream": lambda: loader(NoisyStream(), num_workers=2),
    "2 workers that stay, stream": lambda: loader(NoisyStream(), num_workers=2, persistent_workers=True),
}


def seed_all(seed: int) -> None:
    R.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def generators() -> list[Any]:
    """The states of this process's generators."""
    return [R.default_generator.state_array().tolist(), repr(np.random.get_state()), random.getstate()]


def rest_of(batches: Iterator[Any]) -> list[Any]:
    """The remaining batches of an epoch, with a draw of the training between them."""
    return [(plain(batch), tdt_side().rand()) for batch in batches]


def through_json(state: dict) -> dict:
    """As the trainer's checkpoints keep it: JSON, with the arrays beside it."""
    arrays: list[np.ndarray] = []

    def keep(value: Any) -> Any:
        assert isinstance(value, tdt.Tensor) and value.dtype == tdt.uint8
        arrays.append(value.numpy())
        return {"array": len(arrays) - 1}

    text = json.dumps(state, default=keep)
    return json.loads(text, object_hook=lambda d: arrays[d["array"]] if list(d) == ["array"] else d)


@pytest.mark.parametrize("name", MAKERS)
def test_resuming_at_any_batch_yields_the_remaining_batches(name: str) -> None:
    """Then the loader and the generators are as after the whole epoch; that the next one is the same is asked once."""
    make = MAKERS[name]
    seed_all(1)
    first = make()
    rest_of(iter(first))  # one whole epoch, so that the interrupted one is not the first
    whole, states, epoch = iter(first), [], []
    states.append(through_json(first.state_dict()))
    for batch in whole:
        epoch.append((plain(batch), tdt_side().rand()))
        states.append(through_json(first.state_dict()))
    after = as_text(first.state_dict()), generators()
    following = [rest_of(iter(first)), generators()]
    assert len(epoch) >= 5
    for position, saved in enumerate(states):
        seed_all(99)  # another process
        second = make()
        second.load_state_dict(saved)
        assert rest_of(iter(second)) == epoch[position:], position
        assert (as_text(second.state_dict()), generators()) == after, position
        if position == 3:
            assert [rest_of(iter(second)), generators()] == following


def as_text(state: dict) -> str:
    return json.dumps(state, default=lambda array: array.tolist())


@pytest.mark.parametrize("name", ["shuffled", "generator", "2 workers", "2 workers that stay", "stream"])
def test_resuming_between_epochs_yields_the_next_epoch(name: str) -> None:
    make = MAKERS[name]
    seed_all(1)
    first = make()
    rest_of(iter(first))
    state = through_json(first.state_dict())
    want = rest_of(iter(first))
    seed_all(99)
    second = make()
    second.load_state_dict(state)
    assert rest_of(iter(second)) == want


@pytest.mark.parametrize("name", ["shuffled", "2 workers", "2 workers, replacement", "2 workers, stream"])
def test_a_resumed_run_can_be_saved_and_resumed_again(name: str) -> None:
    make = MAKERS[name]
    seed_all(1)
    first = make()
    want = rest_of(iter(first))
    seed_all(1)
    got = []
    current = make()
    batches = iter(current)
    for step in range(len(want)):
        got.append((plain(next(batches)), tdt_side().rand()))
        if step in (0, 1, 3):
            state = through_json(current.state_dict())
            seed_all(50 + step)
            current = make()
            current.load_state_dict(state)
            batches = iter(current)
    assert got == want


def test_resuming_loads_no_sample_again() -> None:
    first = loader(Noisy(4000), shuffle=True)
    batches = iter(first)
    for _ in range(900):
        next(batches)
    state = first.state_dict()
    dataset = Noisy(4000)
    second = loader(dataset, shuffle=True)
    second.load_state_dict(state)
    resumed = iter(second)
    assert dataset.reads == 0
    next(resumed)
    assert dataset.reads == BATCH


def test_a_loop_that_is_left_can_still_be_saved() -> None:
    seed_all(3)
    first = loader(shuffle=True, num_workers=2)
    for step, _ in enumerate(first):
        if step == 2:
            break
    state = first.state_dict()
    assert state["epoch"]["position"] == 3
    seed_all(3)
    want = rest_of(iter(loader(shuffle=True, num_workers=2)))[3:]
    second = loader(shuffle=True, num_workers=2)
    second.load_state_dict(state)
    assert [plain(batch) for batch in second] == [batch for batch, _ in want]


def test_loading_a_state_leaves_it_unchanged() -> None:
    first = loader(num_workers=2)
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    before = as_text(state)
    second = loader(num_workers=2)
    second.load_state_dict(state)
    rest_of(iter(second))
    assert as_text(state) == before


def test_a_state_that_cannot_be_exact_is_refused() -> None:
    first = loader(num_workers=2)
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    with pytest.raises(ValueError, match="the epoch was started with num_workers=2, this loader has 0"):
        loader().load_state_dict(state)
    with pytest.raises(ValueError, match="format 99 is unknown"):
        loader(num_workers=2).load_state_dict({**state, "format": 99})
    with pytest.raises(ValueError, match="0 own generators; this one has 1"):
        loader(num_workers=2, generator=R.Generator()).load_state_dict(state)
    unordered = data.DataLoader(Numbers(9), num_workers=2, in_order=False)
    next(iter(unordered))
    with pytest.raises(RuntimeError, match="use in_order=True"):
        unordered.state_dict()


def test_a_state_survives_save_and_a_load_that_runs_no_code():
    seed_all(4)
    first = data.DataLoader(range(7), batch_size=2, shuffle=True)
    batches = iter(first)
    next(batches)
    file = io.BytesIO()
    tdt.save(first.state_dict(), file)
    rest = plain([*batches])
    file.seek(0)
    second = data.DataLoader(range(7), batch_size=2, shuffle=True)
    second.load_state_dict(tdt.load(file))
    assert plain([*second]) == rest

"""Datasets made from others, and random_split."""

from __future__ import annotations

import numpy as np
import pytest

import tdt._random as R
import tdt.utils.data as data
from tdt._core.tensor import wrap
from tests.utils.data.common import Numbers, tdt_side, torch_side


def test_concatenated_datasets_are_indexed_from_both_ends() -> None:
    both = Numbers(3) + Numbers(4)
    assert [both[i] for i in range(-7, 7)] == [0, 1, 2, 0, 1, 2, 3] * 2
    assert both.cumulative_sizes == [3, 7]
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        both[-8]
    with pytest.raises(AssertionError, match="should not be an empty iterable"):
        data.ConcatDataset([])


def test_a_subset_of_a_subset_follows_both_index_lists() -> None:
    inner = data.Subset(Numbers(10), [9, 7, 5, 3])
    outer = data.Subset(inner, [3, 0])
    assert [outer[0], outer[1]] == outer.__getitems__([0, 1]) == [3, 9]
    assert len(outer) == 2


def test_a_subset_that_overrides_getitem_must_override_getitems_too() -> None:
    class Negative(data.Subset):
        def __getitem__(self, index: int) -> int:
            return -self.dataset[self.indices[index]]

    with pytest.raises(NotImplementedError, match="overrides __getitem__ but not __getitems__"):
        Negative(Numbers(3), [0])


def test_stacked_datasets_return_tuples_or_dictionaries() -> None:
    class Doubled(Numbers):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [2 * i for i in indices]

    pair, named = data.StackDataset(Numbers(4), Doubled(4)), data.StackDataset(a=Numbers(4), b=Doubled(4))
    assert (len(pair), pair[3], named[3]) == (4, (3, 3), {"a": 3, "b": 3})
    assert pair.__getitems__([1, 3]) == [(1, 2), (3, 6)]
    assert [{k: v.tolist() for k, v in batch.items()} for batch in data.DataLoader(named, batch_size=3)] == [
        {"a": [0, 1, 2], "b": [0, 2, 4]}, {"a": [3], "b": [6]}
    ]  # fmt: skip


def test_datasets_that_do_not_stack_are_refused() -> None:
    class Short(Numbers):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [0]

    for side in (tdt_side(), torch_side()):
        Stack = side.data.StackDataset
        with pytest.raises(ValueError, match="At least one dataset should be passed"):
            Stack()
        with pytest.raises(ValueError, match="Size mismatch between datasets"):
            Stack(range(2), range(3))
        with pytest.raises(ValueError, match="Supported either"):
            Stack(range(2), a=range(2))
        with pytest.raises(ValueError, match="output size mismatch. Expected 2, got 1"):
            Stack(a=Short(3)).__getitems__([0, 1])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_process_gets_pytorchs_share(shuffle: bool, drop_last: bool) -> None:
    for n, processes in ((10, 2), (10, 4), (11, 3), (2, 5), (0, 2)):
        for rank in range(processes):
            shares = []
            for side in (tdt_side(), torch_side()):
                sampler = side.data.DistributedSampler(range(n), processes, rank, shuffle, 7, drop_last)
                first = list(sampler)
                sampler.set_epoch(3)
                shares.append((len(sampler), sampler.total_size, first, list(sampler)))
            assert shares[0] == shares[1]


def test_a_process_that_is_none_is_refused() -> None:
    from tdt.utils.data.distributed import DistributedSampler

    assert DistributedSampler is data.DistributedSampler
    for side in (tdt_side(), torch_side()):
        with pytest.raises(ValueError, match="Invalid rank 2, rank should be in the interval .0, 1."):
            side.data.DistributedSampler(range(4), 2, 2)
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            side.data.DistributedSampler(range(4))


def test_tensors_of_a_dataset_have_equally_many_rows() -> None:
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(wrap(np.ones(3)), wrap(np.ones(4)))


@pytest.mark.parametrize("lengths", [[3, 7], [0.3, 0.7], [1 / 3, 1 / 3, 1 / 3], [10, 0], [0.25, 0.25, 0.5]])
def test_a_random_split_is_pytorchs(lengths: list) -> None:
    torch = torch_side()
    ours = data.random_split(range(10), lengths, generator=R.Generator().manual_seed(42))
    theirs = torch.data.random_split(range(10), lengths, generator=torch.Generator().manual_seed(42))
    assert [part.indices for part in ours] == [part.indices for part in theirs]


def test_a_split_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset"):
        data.random_split(range(10), [3, 8])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        data.random_split(range(10), [-0.5, 1.5])
    for side in (tdt_side(), torch_side()):
        with pytest.raises(TypeError):
            side.data.random_split(range(5), [2.5, 2.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.5, 0.5])


def test_indices_are_refused_where_the_function_has_none() -> None:
    for side in (tdt_side(), torch_side()):
        with pytest.raises(RuntimeError):
            list(side.data.RandomSampler([], replacement=True, num_samples=3))
        with pytest.raises(TypeError):
            list(side.data.RandomSampler([1, 2], generator=42))
        with pytest.raises(TypeError):
            list(side.data.DataLoader([1, 2], generator=42))


def test_a_weighted_sampler_does_not_draw_more_than_there_is() -> None:
    for side in (data, torch_side().data):
        with pytest.raises(RuntimeError, match="without replacement"):
            list(side.WeightedRandomSampler([0.1, 0.9], 3, replacement=False))

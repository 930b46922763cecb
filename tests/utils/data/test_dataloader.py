"""DataLoader in one process: the order, the generator's state and the argument errors are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tdt.utils.data as data
from tdt._core.tensor import wrap
from tests.utils.data.common import Noisy, Numbers, plain, tdt_side, torch_side

# Each builds a loader over 23 samples from a namespace that is PyTorch or tdt.
LOADERS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda t: t.data.DataLoader(Numbers(23), batch_size=4),
    "shuffled": lambda t: t.data.DataLoader(Numbers(23), batch_size=4, shuffle=True),
    "last dropped": lambda t: t.data.DataLoader(Numbers(23), batch_size=4, shuffle=True, drop_last=True),
    "single samples": lambda t: t.data.DataLoader(Numbers(23), batch_size=None, shuffle=True),
    "generator": lambda t: t.data.DataLoader(
        Numbers(23), batch_size=4, shuffle=True, generator=t.Generator().manual_seed(7)
    ),
    "replacement": lambda t: t.data.DataLoader(
        Numbers(23), 4, sampler=t.data.RandomSampler(range(23), replacement=True, num_samples=70)
    ),
    "more than all": lambda t: t.data.DataLoader(Numbers(23), 4, sampler=t.data.RandomSampler(range(23), num_samples=50)),
    "sampler's generator": lambda t: t.data.DataLoader(
        Numbers(23), 4, sampler=t.data.RandomSampler(range(23), True, generator=t.Generator().manual_seed(3))
    ),
    "subset": lambda t: t.data.DataLoader(Numbers(23), 4, sampler=t.data.SubsetRandomSampler([3, 1, 4, 15, 9, 2, 6])),
    "weighted": lambda t: t.data.DataLoader(
        Numbers(23), 4, sampler=t.data.WeightedRandomSampler(np.arange(23) / 7, 40)
    ),
    "weighted, each once": lambda t: t.data.DataLoader(
        Numbers(23), 4, sampler=t.data.WeightedRandomSampler(np.arange(23) + 1.0, 20, replacement=False)
    ),
    "batch sampler": lambda t: t.data.DataLoader(
        Numbers(23), batch_sampler=t.data.BatchSampler(t.data.RandomSampler(range(23)), 5, True)
    ),
    "split": lambda t: t.data.DataLoader(t.data.random_split(Numbers(23), [0.5, 0.3, 0.2])[1], 3),
    "two datasets": lambda t: t.data.DataLoader(t.data.ConcatDataset([Numbers(11), Numbers(12)]), 4, shuffle=True),
    "noisy": lambda t: t.data.DataLoader(Noisy(23, t), 4, shuffle=True),
    "two workers": lambda t: t.data.DataLoader(Noisy(23, t), 4, shuffle=True, num_workers=2),
    "workers that stay": lambda t: t.data.DataLoader(
        Noisy(23, t), 4, shuffle=True, num_workers=2, persistent_workers=True
    ),
    "workers, generator": lambda t: t.data.DataLoader(
        Noisy(23, t), 4, shuffle=True, num_workers=3, prefetch_factor=1, generator=t.Generator().manual_seed(1)
    ),
}  # fmt: skip


def two_epochs(side: Any, make: Callable[[Any], Any]) -> list[Any]:
    """Everything that can be seen: two epochs with draws between the batches, the length, and the state at the end."""
    import random

    side.manual_seed(11)
    np.random.seed(11)
    random.seed(11)
    loader = make(side)
    recorded: list[Any] = [len(loader)]
    for _ in range(2):
        for batch in loader:
            recorded += [plain(batch), side.rand()]
        recorded.append(side.state().tolist())
    return recorded


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("name", LOADERS)
def test_batches_and_the_generators_state_are_pytorchs(name: str) -> None:
    assert two_epochs(tdt_side(), LOADERS[name]) == two_epochs(torch_side(), LOADERS[name])


def test_the_order_of_seed_zero_is_known_without_torch() -> None:
    tdt_side().manual_seed(0)
    order = [plain(batch) for batch in data.DataLoader(Numbers(10), batch_size=5, shuffle=True)]
    assert order == [[6, 7, 1, 4, 2], [0, 9, 8, 3, 5]]  # PyTorch 2.13, torch.manual_seed(0)


BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"num_workers": -1}, "num_workers option should be non-negative"),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
    ({"num_workers": 1, "prefetch_factor": -1}, "prefetch_factor option should be non-negative"),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ({"sampler": [1, 2], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
    ({"batch_sampler": [[1]], "shuffle": True}, "batch_sampler option is mutually exclusive"),
    ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler option is mutually exclusive"),
    ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
    ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
    ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ({"batch_size": 2.0}, "batch_size should be a positive integer value"),
    ({"multiprocessing_context": "fork"}, "multiprocessing_context can only be used with multi-process loading"),
    ({"num_workers": 1, "multiprocessing_context": "frok"}, "should specify a valid start method in"),
    ({"shuffle": True, "dataset": []}, "num_samples should be a positive integer value, but got num_samples=0"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_arguments_that_contradict_each_other_get_pytorchs_error(arguments: dict, message: str) -> None:
    arguments = {"dataset": Numbers(5), **arguments}
    with pytest.raises(ValueError, match=message):
        data.DataLoader(**arguments)
    with pytest.raises(ValueError, match=message):
        torch_side().data.DataLoader(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"timeout": 1}, "timeout"), ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor must be greater than 0")],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PyTorch's iterator, half made
def test_arguments_that_fit_no_epoch_are_refused_when_one_begins(arguments: dict, message: str) -> None:
    for side in (data, torch_side().data):
        with pytest.raises(AssertionError, match=message):
            iter(side.DataLoader(Numbers(5), **arguments))


def test_the_way_to_start_workers_is_a_context_and_may_be_set_later() -> None:
    for side in (data, torch_side().data):
        loader = side.DataLoader(Numbers(5), num_workers=1)
        assert loader.multiprocessing_context is None
        loader.multiprocessing_context = "spawn"
        assert loader.multiprocessing_context.get_start_method() == "spawn"
        with pytest.raises(
            TypeError, match="multiprocessing_context option should be a valid context object or a string"
        ):
            loader.multiprocessing_context = 5
        with pytest.raises(ValueError, match="multi-process loading"):
            side.DataLoader(Numbers(5)).multiprocessing_context = "fork"


def test_an_epoch_has_a_length() -> None:
    for side in (data, torch_side().data):
        assert len(iter(side.DataLoader(Numbers(5), 2))) == 3


class Stream(data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(7))


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_a_stream_refuses_an_order(name: str) -> None:
    value: Any = True if name == "shuffle" else [[0]]
    with pytest.raises(ValueError, match=f"IterableDataset: expected unspecified {name} option"):
        data.DataLoader(Stream(), **{name: value})


def test_a_stream_is_cut_into_batches() -> None:
    assert [plain(batch) for batch in data.DataLoader(Stream(), 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [plain(batch) for batch in data.DataLoader(Stream(), 3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert list(data.DataLoader(Stream(), None)) == list(range(7))
    assert list(data.DataLoader(data.ChainDataset([Stream(), Stream()]), None)) == [*range(7)] * 2
    with pytest.raises(TypeError, match="has no len"):
        len(data.DataLoader(Stream(), 3))


def test_attributes_that_define_the_order_cannot_be_set_later() -> None:
    loader = data.DataLoader(Numbers(5))
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 3
    loader.timeout = 2.0
    assert loader.timeout == 2.0


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("shape", [(12,), (12, 3), (12, 2, 5)])
def test_gathering_a_tensor_batch_equals_stacking_its_samples(dtype: str, shape: tuple) -> None:
    rows = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    for array in (rows, np.asfortranarray(rows), np.repeat(rows, 2, 0)[::2]):
        dataset = data.TensorDataset(wrap(array), wrap(np.arange(12)))
        samples = data.Subset(dataset, [*range(11, -1, -1)])
        for source, indices in ((dataset, [3, 0, 11, 3]), (samples, [1, 1, 7])):
            fast = source.__getbatch__(indices)
            slow = data.default_collate([tuple(wrap(a[i, ...]) for a in (array, np.arange(12))) for i in
                                         (indices if source is dataset else [11 - i for i in indices])])  # fmt: skip
            for a, b in zip(fast, slow, strict=True):
                assert (a.numpy() == b.numpy()).all() and a.numpy().dtype == b.numpy().dtype
                assert a.numpy().flags.c_contiguous and a.numpy().flags.owndata


def test_a_subclass_that_changes_samples_is_not_gathered() -> None:
    class Doubled(data.TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return wrap(self.tensors[0].numpy()[index] * np.array(2))

    class OfPairs(data.Subset):
        def __getitems__(self, indices: list[int]) -> list:
            return [7 for _ in indices]

    doubled = Doubled(wrap(np.arange(6)))
    assert plain(next(iter(data.DataLoader(doubled, 3)))) == [0, 2, 4]
    assert plain(next(iter(data.DataLoader(data.Subset(doubled, [5, 4]), 3)))) == [10, 8]
    assert plain(next(iter(data.DataLoader(OfPairs(data.TensorDataset(wrap(np.arange(6))), [1, 2]), 2)))) == [7, 7]


def test_a_users_collate_function_gets_the_samples() -> None:
    loader = data.DataLoader(Numbers(5), 2, collate_fn=lambda samples: samples)
    assert list(loader) == [[0, 1], [2, 3], [4]]


def test_getitems_is_called_with_whole_batches() -> None:
    class Many(Numbers):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [-index for index in indices]

    assert [plain(batch) for batch in data.DataLoader(Many(5), 2)] == [[0, -1], [-2, -3], [-4]]


def test_pin_memory_warns_that_it_does_nothing() -> None:
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but"):
        data.DataLoader(Numbers(5), pin_memory=True)

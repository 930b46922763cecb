"""Samples for the layers that PyTorch's module database leaves out, and for options it does not ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_modules import FunctionInput, ModuleInput

Samples = Callable[[torch.dtype], list[ModuleInput]]


def tensor(dtype: torch.dtype, *shape: int, low: float | None = None) -> torch.Tensor:
    """Random numbers of a shape, wanting a gradient; normal ones, or uniform ones from `low` on."""
    x = torch.randn(*shape, dtype=dtype) if low is None else torch.rand(*shape, dtype=dtype) + low
    return x.requires_grad_()


def called(*inputs: Any, args: tuple = (), **kwargs: Any) -> Callable[[torch.dtype], ModuleInput]:
    """A sample: constructor arguments `args` and `kwargs`; `inputs` are shapes (lists) or values for the call."""

    def sample(dtype: torch.dtype) -> ModuleInput:
        values = [tensor(dtype, *i) if isinstance(i, list) else i for i in inputs]
        return ModuleInput(FunctionInput(*args, **kwargs), FunctionInput(*values), desc=f"{args} {kwargs}")

    return sample


def several(*each: Callable[[torch.dtype], ModuleInput]) -> Samples:
    """The samples of one layer."""
    return lambda dtype: [make(dtype) for make in each]


def with_unbatched(*each: Callable[[torch.dtype], ModuleInput]) -> Samples:
    """The samples, and each once more without its batch."""

    def samples(dtype: torch.dtype) -> list[ModuleInput]:
        found = [make(dtype) for make in each]
        for s in list(found):
            inputs = [x[0].detach().clone().requires_grad_() for x in s.forward_input.args]
            found.append(ModuleInput(s.constructor_input, FunctionInput(*inputs), desc=s.desc + ", no batch"))
        return found

    return samples


def unpooled(dims: int) -> Samples:
    """Maxima and their places, as max pooling hands them on."""

    def samples(dtype: torch.dtype) -> list[ModuleInput]:
        pool = getattr(torch.nn.functional, f"max_pool{dims}d")
        found = []
        for shape, options, how in (((2, 3, *[6] * dims), {"kernel_size": 2}, {}),
                                    ((3, *[7] * dims), {"kernel_size": 3, "stride": 2, "padding": 1}, {}),
                                    ((2, 3, *[7] * dims), {"kernel_size": 2}, {"output_size": [7] * dims})):  # fmt: skip
            values, places = pool(torch.randn(shape, dtype=dtype), **options, return_indices=True)
            found.append(ModuleInput(FunctionInput(**options), FunctionInput(values.requires_grad_(), places, **how)))
        return found

    return samples


def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A user's own measure."""
    return (a - b).abs().sum(-1)


LABELS = torch.tensor([0, 3, 7, 2, 9, 1])
BAG = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
BAGS = torch.tensor([0, 4, 4])
# The last offset is the input's size: with a smaller one, PyTorch's float64 takes the rest and its float32 does not.
CLOSED = torch.tensor([0, 4, 4, 8])
# Each as often as the others: PyTorch's dense gradient divides by the frequency of another index than its own.
TWICE = torch.tensor([1, 2, 4, 5, 4, 1, 2, 5])

BEYOND: dict[str, Samples] = {
    "AdaptiveLogSoftmaxWithLoss": several(
        called([6, 8], LABELS, args=(8, 10, [2, 5])), called([6, 8], LABELS, args=(8, 10, [4]), div_value=2.0, head_bias=True),
        called([8], torch.tensor(7), args=(8, 10, [2, 5])),
    ),
    "AlphaDropout": several(called([4, 5]), called([4, 5], p=0.2), called([7], args=(1.0,))),
    "ChannelShuffle": several(called([2, 6, 3, 4], args=(3,)), called([1, 4, 5], args=(2,))),
    "Container": several(called()),
    "CosineSimilarity": several(called([2, 3, 4], [2, 3, 4]), called([3, 4], [1, 4], dim=0, eps=1e-4), called([4], [4], dim=-1)),
    # PyTorch's gradients are of one channel alone right, its sums of a few: tests/nn/test_norms.py asks the rest.
    "CrossMapLRN2d": several(called([2, 1, 3, 3], args=(5,)), called([2, 1, 3, 3], args=(3,), alpha=0.1, beta=0.5, k=2)),
    "DataParallel": several(called([3, 4], args=(torch.nn.Linear(4, 2),))),
    "Dropout": several(called([4, 5]), called([4, 5], p=0.2, inplace=False), called([7], args=(1.0,))),
    "Dropout1d": with_unbatched(called([2, 3, 5]), called([2, 3, 5], p=0.2)),
    "Dropout2d": with_unbatched(called([2, 3, 4, 5]), called([2, 3, 4, 5], p=0.2)),
    "Dropout3d": with_unbatched(called([2, 3, 2, 4, 5]), called([2, 3, 2, 4, 5], p=0.2)),
    "Embedding": several(
        called(torch.tensor([[1, 2, 2], [0, 3, 1]]), args=(5, 3), padding_idx=1),
        called(torch.tensor([1, 2, 2]), args=(5, 3), scale_grad_by_freq=True),
        called(torch.tensor([1, 2, 2]), args=(5, 3), max_norm=1.0),
        called(torch.tensor([1, 2, 4]), args=(5, 3), padding_idx=-1, norm_type=1.0),
        called(torch.tensor([1, 2, 2]), args=(5, 3), sparse=True),
    ),
    "EmbeddingBag": several(
        *(called(BAG, BAGS, args=(10, 3), mode=mode) for mode in ("sum", "mean", "max")),
        called(BAG.reshape(2, 4), args=(10, 3)), called(BAG, BAGS, args=(10, 3), padding_idx=4),
        called(BAG, CLOSED, args=(10, 3), include_last_offset=True), called(BAG, BAGS, args=(10, 3), max_norm=1.0),
        called(TWICE, BAGS, args=(10, 3), scale_grad_by_freq=True), called(BAG, BAGS, [8], args=(10, 3), mode="sum"),
        called(BAG, BAGS, args=(10, 3), sparse=True, mode="sum"),
    ),
    "FeatureAlphaDropout": several(called([2, 3, 4, 5]), called([3, 4], p=0.2)),
    "Flatten": several(called([2, 3, 4]), called([2, 3, 4], args=(0, 1)), called([2, 3, 4], start_dim=-2)),
    "Fold": with_unbatched(called([2, 12, 12], args=((4, 5), (2, 2))), called([2, 18, 9], args=(6, 3), padding=1, stride=2)),
    "Hardsigmoid": several(called([4, 5]), called([7], inplace=False)),
    "Identity": several(called([2, 3]), called([2, 3], args=(54,), unused=True)),
    **{f"LazyBatchNorm{d}d": several(called([4, 3, *[5] * d]), called([4, 3, *[2] * d], affine=False, momentum=None))
       for d in (1, 2, 3)},
    **{f"LazyInstanceNorm{d}d": several(called([4, 3, *[5] * d]), called([4, 3, *[2] * d], affine=True, track_running_stats=True))
       for d in (1, 2, 3)},
    "LazyLinear": several(called([4, 3], args=(5,)), called([3], args=(2,), bias=False)),
    "LayerNorm": several(called([2, 3, 4], args=((3, 4),)), called([2, 4], args=(4,), bias=False)),
    "Linear": several(called([2, 3, 5], args=(5, 4)), called([0, 5], args=(5, 4))),
    "MaxPool2d": several(called([2, 3, 7, 8], args=(3,), stride=2, padding=1, ceil_mode=True)),
    **{f"MaxUnpool{d}d": unpooled(d) for d in (1, 2, 3)},
    "Module": several(called()),
    "ModuleDict": several(called(), called(args=({"a": torch.nn.Linear(2, 3), "b": torch.nn.ReLU()},))),
    "ModuleList": several(called(), called(args=([torch.nn.Linear(2, 3), torch.nn.Linear(2, 3), torch.nn.ReLU()],))),
    "NLLLoss2d": several(called([2, 4, 3, 3], torch.ones(2, 3, 3, dtype=torch.int64))),
    "PairwiseDistance": several(
        called([3, 4], [3, 4]), called([3, 4], [4], p=1.0, eps=1e-3), called([3, 4], [3, 4], keepdim=True),
    ),
    "ParameterDict": several(called(), called(args=({"a": torch.ones(2), "b": torch.zeros(1, 3)},))),
    "ParameterList": several(called(), called(args=([torch.ones(2), torch.zeros(1, 3)],))),
    "PixelShuffle": several(called([2, 8, 3, 4], args=(2,)), called([9, 1, 2], args=(3,))),
    "PixelUnshuffle": several(called([2, 2, 4, 6], args=(2,)), called([1, 3, 6], args=(3,))),
    "RNNBase": several(*(called(args=(kind, 3, 4), num_layers=2) for kind in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU"))),
    "RNNCellBase": several(called(args=(3, 4, True, 3))),
    "RReLU": several(called([4, 5]), called([4, 5], lower=0.1, upper=0.9)),
    "Sequential": several(called([2, 3]), called([2, 3], args=(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)))),
    "SyncBatchNorm": several(called([4, 3], args=(3,)), called([4, 3, 2, 2], args=(3,), momentum=None, affine=False)),
    "TransformerDecoder": several(
        called([5, 2, 8], [3, 2, 8], args=(torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2)),
        called([5, 2, 8], [3, 2, 8], args=(torch.nn.TransformerDecoderLayer(8, 2, norm_first=True), 1, torch.nn.LayerNorm(8))),
    ),
    "TripletMarginLoss": several(
        called([3, 4], [3, 4], [3, 4]), called([3, 4], [3, 4], [3, 4], margin=2.0, p=1.0, swap=True, reduction="sum"),
        called([4], [4], [4], reduction="none"),
    ),
    "TripletMarginWithDistanceLoss": several(
        called([3, 4], [3, 4], [3, 4]), called([3, 4], [3, 4], [3, 4], distance_function=distance, swap=True, reduction="none"),
    ),
    "Unflatten": several(called([2, 12], args=(1, (3, 4))), called([12, 2], args=(0, torch.Size([2, -1])))),
    "Unfold": with_unbatched(called([2, 3, 5, 6], args=((2, 3),)), called([2, 3, 5, 6], args=(3, 2), padding=1, stride=2)),
    "Upsample": several(
        called([2, 3, 4, 5], scale_factor=2), called([2, 3, 4, 5], size=(7, 3), mode="bilinear"),
        called([2, 3, 4, 5], scale_factor=1.7, mode="bicubic", align_corners=True),
        called([2, 3, 4], scale_factor=2, mode="linear"),
        called([1, 2, 3, 4, 5], scale_factor=(2, 1, 3), mode="trilinear"), called([2, 3, 4, 5], size=3, mode="area"),
        called([2, 3, 4, 5], scale_factor=2, mode="nearest-exact", recompute_scale_factor=True),
    ),
    "UpsamplingBilinear2d": several(called([2, 3, 4, 5], scale_factor=2), called([2, 3, 4, 5], size=(3, 7))),
    "UpsamplingNearest2d": several(called([2, 3, 4, 5], scale_factor=2), called([2, 3, 4, 5], size=(3, 7))),
}  # fmt: skip

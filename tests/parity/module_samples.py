"""Samples for the layers that PyTorch's module database leaves out, and for options it does not ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_modules import FunctionInput, ModuleInput

Samples = Callable[[torch.dtype], list[ModuleInput]]


def made(dtype: torch.dtype, *shape: int, low: float | None = None) -> torch.Tensor:
    """Random numbers of a shape, wanting a gradient; normal ones, or uniform ones from `low` on."""
    x = torch.randn(*shape, dtype=dtype) if low is None else torch.rand(*shape, dtype=dtype) + low
    return x.requires_grad_()


def called(*inputs: Any, args: tuple = (), **kwargs: Any) -> Callable[[torch.dtype], ModuleInput]:
    """A sample: constructor arguments `args` and `kwargs`; `inputs` are shapes (lists) or values for the call."""

    def sample(dtype: torch.dtype) -> ModuleInput:
        values = [made(dtype, *i) if isinstance(i, list) else i for i in inputs]
        return ModuleInput(FunctionInput(*args, **kwargs), FunctionInput(*values), desc=f"{args} {kwargs}")

    return sample


def several(*each: Callable[[torch.dtype], ModuleInput]) -> Samples:
    """The samples of one layer."""
    return lambda dtype: [make(dtype) for make in each]


BEYOND: dict[str, Samples] = {
    "Dropout": several(called([4, 5]), called([4, 5], p=0.2, inplace=False), called([7], args=(1.0,))),
    "Flatten": several(called([2, 3, 4]), called([2, 3, 4], args=(0, 1)), called([2, 3, 4], start_dim=-2)),
    "Identity": several(called([2, 3]), called([2, 3], args=(54,), unused=True)),
    "LazyLinear": several(called([4, 3], args=(5,)), called([3], args=(2,), bias=False)),
    "MaxPool2d": several(called([2, 3, 7, 8], args=(3,), stride=2, padding=1, ceil_mode=True)),
    "LayerNorm": several(called([2, 3, 4], args=((3, 4),)), called([2, 4], args=(4,), bias=False)),
    "Linear": several(called([2, 3, 5], args=(5, 4)), called([0, 5], args=(5, 4))),
    "Embedding": several(
        called(torch.tensor([[1, 2, 2], [0, 3, 1]]), args=(5, 3), padding_idx=1),
        called(torch.tensor([1, 2, 2]), args=(5, 3), scale_grad_by_freq=True),
        called(torch.tensor([1, 2, 2]), args=(5, 3), max_norm=1.0),
        called(torch.tensor([1, 2, 4]), args=(5, 3), padding_idx=-1, norm_type=1.0),
        called(torch.tensor([1, 2, 2]), args=(5, 3), sparse=True),
    ),
    "Module": several(called()),
    "ModuleDict": several(called()),
    "ModuleList": several(called()),
    "Sequential": several(called([2, 3])),
}

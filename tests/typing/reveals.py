"""Expressions and the types that a checker or an IDE should show for them, which the comment names.

Read by mypy and pyright, never run as a test. `a or b`: both forms are right. README.md says how to count.
"""

from __future__ import annotations

from typing import reveal_type

import tdt
import tdt.nn.functional as F
from tdt import Tensor, nn, optim
from tdt.train import config
from tdt.utils.data import DataLoader, TensorDataset, random_split


def operators(x: Tensor, y: Tensor) -> None:
    reveal_type(x + 1)  # Tensor
    reveal_type(1 - x)  # Tensor
    reveal_type(x / y)  # Tensor
    reveal_type(2**x)  # Tensor
    reveal_type(x @ y)  # Tensor
    reveal_type(-x)  # Tensor
    reveal_type(x == y)  # Tensor
    reveal_type(x < 0)  # Tensor
    reveal_type(~(x > y))  # Tensor
    reveal_type(x[0])  # Tensor
    reveal_type(x[:, None, x[0] > 0])  # Tensor


def functions(x: Tensor, y: Tensor) -> None:
    reveal_type(tdt.ones(2))  # Tensor
    reveal_type(tdt.tensor([1.0]))  # Tensor
    reveal_type(tdt.arange(3))  # Tensor
    reveal_type(tdt.add(x, y))  # Tensor
    reveal_type(tdt.tanh(x))  # Tensor
    reveal_type(tdt.cat([x, y]))  # Tensor
    reveal_type(tdt.where(x > 0, x, y))  # Tensor
    reveal_type(tdt.split(x, 2)[0])  # Tensor
    reveal_type(tdt.float32)  # dtype
    reveal_type(tdt.device("cpu"))  # device
    reveal_type(tdt.is_tensor(x))  # bool
    reveal_type(tdt.load("model.pt"))  # Any


def methods(x: Tensor) -> None:
    reveal_type(x.sum(dim=1))  # Tensor
    reveal_type(x.max(dim=1).values)  # Tensor
    reveal_type(x.topk(2)[1])  # Tensor
    reveal_type(x.reshape(2, -1))  # Tensor
    reveal_type(x.to("cpu"))  # Tensor
    reveal_type(x.add_(1))  # Tensor
    reveal_type(x.shape)  # Size
    reveal_type(x.size(0))  # int
    reveal_type(x.shape[0])  # int
    reveal_type(x.dtype)  # dtype
    reveal_type(x.requires_grad)  # bool
    reveal_type(x.grad)  # Tensor | None
    reveal_type(x.item())  # bool | float | int or float | int
    reveal_type(x.backward())  # None


def layers(x: Tensor, target: Tensor) -> None:
    layer = nn.Linear(2, 3)
    reveal_type(layer.weight)  # Tensor or Parameter
    reveal_type(layer.in_features)  # int
    reveal_type(layer(x))  # Tensor
    reveal_type(nn.LSTM(2, 3)(x)[0])  # Tensor
    reveal_type(nn.CrossEntropyLoss()(x, target))  # Tensor
    reveal_type(F.relu(x))  # Tensor
    reveal_type(F.conv2d(x, x))  # Tensor
    reveal_type(F.cross_entropy(x, target))  # Tensor
    reveal_type(layer.eval())  # Linear
    reveal_type(next(layer.parameters()))  # Parameter


def overloads(x: Tensor) -> None:
    reveal_type(x.nonzero())  # Tensor
    reveal_type(x.nonzero(as_tuple=True))  # tuple[Tensor, ...]
    reveal_type(tdt.nonzero(x, as_tuple=True))  # tuple[Tensor, ...]
    reveal_type(tdt.where(x > 0))  # tuple[Tensor, ...]
    reveal_type(tdt.atleast_1d(x))  # Tensor
    reveal_type(tdt.atleast_1d(x, x))  # tuple[Tensor, ...]
    reveal_type(x.unique())  # Tensor
    reveal_type(x.unique(return_inverse=True))  # tuple[Tensor, Tensor]
    reveal_type(tdt.unique(x, return_inverse=True, return_counts=True))  # tuple[Tensor, Tensor, Tensor]
    reveal_type(tdt.max_pool2d(x, 2))  # Tensor
    reveal_type(F.max_pool2d(x, 2))  # Tensor
    reveal_type(F.max_pool2d(x, 2, return_indices=True))  # tuple[Tensor, Tensor]
    reveal_type(x.add(x, alpha=2))  # Tensor


def results(x: Tensor) -> None:
    reveal_type(tdt.linalg.svd(x).S)  # Tensor
    reveal_type(tdt.linalg.svd(x, out=(x, x, x)).Vh)  # Tensor
    reveal_type(tdt.linalg.eigh(x)[0])  # Tensor
    reveal_type(tdt.linalg.eigh(x).eigenvalues)  # Tensor
    reveal_type(tdt.linalg.solve(x, x))  # Tensor
    reveal_type(nn.MaxPool2d(2)(x))  # Tensor
    reveal_type(nn.Sequential(nn.Linear(2, 3), nn.ReLU())(x))  # Tensor


def product(w: Tensor, x: Tensor) -> Tensor:
    return (w * x).sum()


def transforms(x: Tensor) -> None:
    reveal_type(tdt.autograd.grad(x.sum(), x))  # tuple[Tensor, ...]
    reveal_type(tdt.func.vmap(product)(x, x))  # Tensor
    reveal_type(tdt.vmap(product)(x, x))  # Tensor
    reveal_type(tdt.func.grad(product))  # (w: Tensor, x: Tensor) -> Any or def (w: Tensor, x: Tensor) -> Any
    reveal_type(tdt.func.grad_and_value(product)(x, x)[1])  # Tensor


@tdt.no_grad
def decorated(a: int) -> str:
    return str(a)


@tdt.no_grad()
def called_decorator(a: int) -> str:
    return str(a)


@tdt.enable_grad()
def recording(a: int) -> str:
    return str(a)


@tdt.inference_mode()
def inferring(a: int) -> str:
    return str(a)


@tdt.inference_mode
def inferring_bare(a: int) -> str:
    return str(a)


@tdt.set_grad_enabled(False)
def switched(a: int) -> str:
    return str(a)


@tdt.autocast("cpu")
def mixed(a: int) -> str:
    return str(a)


def decorators() -> None:
    reveal_type(decorated(1))  # str
    reveal_type(called_decorator(1))  # str
    reveal_type(recording(1))  # str
    reveal_type(inferring(1))  # str
    reveal_type(inferring_bare(1))  # str
    reveal_type(switched(1))  # str
    reveal_type(mixed(1))  # str
    reveal_type(tdt.no_grad())  # no_grad
    reveal_type(tdt.inference_mode(False))  # inference_mode


def training(model: nn.Module, x: Tensor, y: Tensor) -> None:
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    reveal_type(optimizer)  # SGD
    reveal_type(optim.lr_scheduler.StepLR(optimizer, 3).get_last_lr())  # list[float] or list[float | Tensor]
    reveal_type(nn.utils.clip_grad_norm_(model.parameters(), 1.0))  # Tensor
    reveal_type(len(DataLoader(TensorDataset(x, y), batch_size=2)))  # int
    reveal_type(TensorDataset(x, y)[0])  # tuple[Tensor, ...]
    reveal_type(random_split(TensorDataset(x, y), [2, 2])[0])  # Subset or Subset[tuple[Tensor, ...]]
    reveal_type(config.load("digits-mlp"))  # Config

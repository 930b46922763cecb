"""What a family gives: a network with its batches, its loss and its optimizer, for either library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

Batch = tuple[Any, ...]
Step = Callable[[], float]


@dataclass
class Network:
    """A network of a family at one size.

    Args:
        model: the module; all its parameters are trained.
        sample: the NumPy arrays of a batch of so many samples, from a generator.
        loss: the scalar loss of the batch's tensors.
        predict: the output for the batch's tensors.
        batch: how many samples a training step takes.
        optimizer: class of `library.optim`, with its arguments.
        step: a training step on the batch's tensors, where it is not one loss, `backward` and one optimizer; its loss.
        bfloat16: losses and outputs are computed under autocast to bfloat16; a `step` of its own wholly.
    """

    library: Any
    model: Any
    sample: Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]
    loss: Callable[..., Any]
    predict: Callable[..., Any]
    batch: int
    optimizer: tuple[str, dict[str, float]] = ("AdamW", {"lr": 1e-3})
    step: Callable[..., Any] | None = None
    bfloat16: bool = False

    def _precision(self) -> AbstractContextManager[Any]:
        """What computes in the network's precision."""
        return self.library.autocast("cpu", self.library.bfloat16) if self.bfloat16 else nullcontext()

    def tensors(self, count: int) -> Batch:
        """A batch, the same for both libraries."""
        return tuple(self.library.from_numpy(array) for array in self.sample(np.random.default_rng(count), count))

    def training(self, compiled: str = "") -> Step:
        """A step of the usual training loop on one batch; it returns the loss. Sets training mode.

        compiled: nothing, the "loss" with its gradients, or the whole "step"; the loss in a `step` of its own stays as it is.
        """
        self.model.train()
        batch = self.tensors(self.batch)
        name, how = self.optimizer
        optimizer = getattr(self.library.optim, name)(self.model.parameters(), **how)
        compute = self.library.compile(self.loss) if compiled == "loss" else self.loss

        def train(*batch: Any) -> Any:
            optimizer.zero_grad()
            with self._precision():
                loss = compute(*batch)
            loss.backward()
            optimizer.step()
            return loss

        def own_step(*batch: Any) -> Any:
            assert self.step is not None
            with self._precision():
                return self.step(*batch)

        step = own_step if self.step else train
        run = self.library.compile(step) if compiled == "step" else step
        return lambda: run(*batch).item()

    def inference(self, count: int) -> Step:
        """A forward pass without gradients; it returns the mean absolute output. Sets eval mode."""
        self.model.eval()
        batch = self.tensors(count)

        def infer() -> float:
            with self.library.no_grad(), self._precision():
                return self.predict(*batch).abs().mean().item()

        return infer


def classifier(
    library: Any, model: Any, shape: tuple[int, ...], classes: int, batch: int, optimizer: str = "SGD", lr: float = 0.01
) -> Network:
    """A network from inputs of normal numbers to classes, under cross-entropy."""

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return rng.standard_normal((count, *shape), np.float32), rng.integers(0, classes, count)

    how = {"lr": lr, "momentum": 0.9} if optimizer == "SGD" else {"lr": lr}
    return Network(
        library, model, sample, lambda x, y: library.nn.functional.cross_entropy(model(x), y), lambda x, y: model(x),
        batch, (optimizer, how),
    )  # fmt: skip


def conv_bn(nn: Any, inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1, act: Any = None,
            dims: int = 2) -> list[Any]:  # fmt: skip
    """A convolution that keeps the size at stride 1, batch norm and an activation, if any."""
    conv, norm = getattr(nn, f"Conv{dims}d"), getattr(nn, f"BatchNorm{dims}d")
    layers = [conv(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False), norm(outside)]
    return [*layers, act()] if act else layers


def residual(nn: Any) -> Any:
    """The module class `Residual(body, shortcut, act)`: act(body(x) + shortcut(x)); None: the identity."""

    class Residual(nn.Module):
        def __init__(self, body: Any, shortcut: Any = None, act: Any = None):
            super().__init__()
            self.body, self.shortcut, self.act = body, shortcut or nn.Identity(), act or nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.act(self.body(x) + self.shortcut(x))

    return Residual

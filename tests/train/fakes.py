"""Small classes in the place of layers, datasets and so on: config tests need signatures, not arrays."""

from __future__ import annotations

from typing import Any, Literal

from tdt.train.config import registry


class Recorder:
    """Keeps what it was made with."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.args, self.kwargs = args, kwargs


class Linear(Recorder):
    def __init__(self, in_features: int, out_features: int, bias: bool = True, device=None, dtype=None):
        super().__init__(in_features, out_features, bias=bias)


class LazyLinear(Recorder):
    def __init__(self, out_features: int, bias: bool = True):
        super().__init__(out_features, bias=bias)


class Conv2d(Recorder):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | Literal["same", "valid"] = 0,
        bias: bool = True,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
    ):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, bias, padding_mode)


class MaxPool2d(Recorder):
    def __init__(self, kernel_size: int | tuple[int, int], stride: int | tuple[int, int] | None = None):
        super().__init__(kernel_size, stride)


class Dropout(Recorder):
    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__(p, inplace)


class Flatten(Recorder):
    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__(start_dim, end_dim)


class ReLU(Recorder):
    def __init__(self, inplace: bool = False):
        super().__init__(inplace)


class Wrap(Recorder):
    def __init__(self, inner: Recorder, names: list[str] = (), text: str = ""):
        super().__init__(inner, names, text)


class CrossEntropyLoss(Recorder):
    def __init__(
        self,
        weight: Recorder | None = None,
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(weight, ignore_index, reduction, label_smoothing)


class Accuracy(Recorder):
    def __init__(self):
        super().__init__()


class Loss(Accuracy):
    pass


class Digits(Recorder):
    def __init__(self, split: Literal["train", "valid", "test"] = "train", transform=None):
        super().__init__(split, transform=transform)


class ToTensor(Recorder):
    def __init__(self):
        super().__init__()


class Normalize(Recorder):
    def __init__(self, mean: float | tuple[float, ...], std: float | tuple[float, ...]):
        super().__init__(mean, std)


class RandomCrop(Recorder):
    def __init__(self, size: int | tuple[int, int], padding: int = 0):
        super().__init__(size, padding)


class SGD(Recorder):
    def __init__(
        self,
        params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        super().__init__(params, lr=lr, momentum=momentum)


class Adam(Recorder):
    def __init__(self, params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        super().__init__(params, lr=lr, betas=betas)


class CosineAnnealingLR(Recorder):
    def __init__(self, optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        super().__init__(optimizer, T_max, eta_min)


class OneCycleLR(Recorder):
    def __init__(self, optimizer, max_lr: float | list[float], total_steps: int | None = None):
        super().__init__(optimizer, max_lr, total_steps)


class Sequential(Recorder):
    def append(self, module: Any) -> None:
        """An attribute, so that a layer cannot be called so."""


def zeros_(tensor):
    return tensor


def kaiming_normal_(
    tensor, a: float = 0, mode: Literal["fan_in", "fan_out"] = "fan_in", nonlinearity: str = "leaky_relu"
):
    return tensor


FAKES = {
    registry.layers: (Linear, LazyLinear, Conv2d, MaxPool2d, Dropout, Flatten, ReLU, Wrap),
    registry.losses: (CrossEntropyLoss,),
    registry.datasets: (Digits,),
    registry.transforms: (ToTensor, Normalize, RandomCrop),
    registry.optimizers: (SGD, Adam),
    registry.schedulers: (CosineAnnealingLR, OneCycleLR),
    registry.initializers: (zeros_, kaiming_normal_),
}
METRICS = {"accuracy": Accuracy, "loss": Loss}


def install(monkeypatch: Any) -> None:
    """Let every registry know the fakes and nothing else."""
    for known, targets in FAKES.items():
        monkeypatch.setattr(known, "_modules", ())
        monkeypatch.setattr(known, "entries", {target.__name__: target for target in targets})
    monkeypatch.setattr(registry.metrics, "entries", dict(METRICS))
    monkeypatch.setattr(registry, "find_sequential", lambda: Sequential)

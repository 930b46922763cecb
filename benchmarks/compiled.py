"""Compiled training steps: ratio of their time to those without, and to PyTorch's without its compiler.

First networks with `tdt.compile`, then chains of small ops as programs write them by hand, forward and backward, then steps of
`tdt train`, with their metrics, on the layers of bundled configs. Processor time of one thread. Of networks the loss and its
gradients are compiled, and then the whole step with clearing of gradients and optimizer.

python -m benchmarks.compiled          # or chains, networks, trainer
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import torch

import tdt
from benchmarks._pairs import arguments, compared, settings
from tdt.train.config import load
from tdt.train.logging.events import Events
from tdt.train.loop.build import build
from tdt.train.loop.trainer import Trainer

PAIRS = 25
WARM = 160  # steps before those that are measured: programs run natively after some calls


def mlp(library: Any) -> Any:
    """64-64-10."""
    nn = library.nn
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def digits_cnn(library: Any) -> Any:
    """The network of configs/digits-cnn.yaml, in its sizes."""
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def wide_mlp(library: Any) -> Any:
    """784-512-256-10."""
    nn = library.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def resnet20(library: Any) -> Any:
    """The residual network of 20 layers for CIFAR-10 (He et al., 2015)."""
    nn = library.nn

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int) -> None:
            super().__init__()
            stride = outside // inside
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
            self.short = nn.Identity() if stride == 1 else nn.Conv2d(inside, outside, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
            return (y + self.short(x)).relu()

    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(a, b) for a, b in itertools.pairwise(widths)]
    first = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def lstm(library: Any) -> Any:
    """An LSTM of 16 units over 16 characters, whose last output is classified."""
    nn = library.nn

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(20, 16), nn.LSTM(16, 16, batch_first=True)
            self.out = nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(self.embedding(x))[0][:, -1])

    return Classifier()


def gpt(library: Any) -> Any:
    """Four blocks of width 128 over 32 characters, the last of which is classified; GELU by hand."""
    nn, functional = library.nn, library.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(128), nn.LayerNorm(128)
            self.heads, self.join = nn.Linear(128, 384), nn.Linear(128, 128)
            self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

        def forward(self, x: Any) -> Any:
            n, t, d = x.shape
            q, k, v = (z.view(n, t, 4, d // 4).transpose(1, 2) for z in self.heads(self.norm1(x)).split(d, 2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.join(y.transpose(1, 2).reshape(n, t, d))
            h = self.up(self.norm2(x))
            h = 0.5 * h * (1.0 + (0.7978845608 * (h + 0.044715 * h * h * h)).tanh())
            return x + self.down(h)

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(20, 128), nn.Embedding(32, 128)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.norm, self.out = nn.LayerNorm(128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = self.token(x) + self.position(library.arange(x.shape[1]))
            return self.out(self.norm(self.blocks(x))[:, -1])

    return Gpt()


# Name: the model, the shape of a batch, and whether it holds characters.
NETWORKS = {
    "MLP 64-64-10, batch 32": (mlp, (32, 64), False),
    "digits-cnn, batch 32": (digits_cnn, (32, 1, 8, 8), False),
    "MLP 784-512-256-10, batch 64": (wide_mlp, (64, 784), False),
    "ResNet-20, batch 8": (resnet20, (8, 3, 32, 32), False),
    "LSTM 16, batch 16": (lstm, (16, 16), True),
    "GPT 4 × 128, batch 8": (gpt, (8, 32), True),
}


def step(library: Any, build: Any, shape: tuple[int, ...], characters: bool, compiled: str = "") -> Any:
    """A function that takes an optimizer step with Adam. compiled: nothing, the "loss", or the whole "step"."""
    draw = np.random.default_rng(0)
    values = draw.integers(0, 20, shape) if characters else draw.standard_normal(shape).astype(np.float32)
    x, y = library.from_numpy(values), library.from_numpy(draw.integers(0, 10, shape[0]))
    library.manual_seed(0)
    model, criterion = build(library), library.nn.CrossEntropyLoss()
    optimizer = library.optim.Adam(model.parameters())

    def loss(x: Any, y: Any) -> Any:
        return criterion(model(x), y)

    computed = library.compile(loss, fullgraph=True) if compiled == "loss" else loss

    def run() -> None:
        optimizer.zero_grad()
        computed(x, y).backward()
        optimizer.step()

    run = library.compile(run, fullgraph=True) if compiled == "step" else run
    for _ in range(WARM):
        run()
    return run


def new_gelu(library: Any, x: Any, y: Any) -> Any:
    """GELU by tanh, as in GPT-2."""
    return 0.5 * x * (1.0 + library.tanh(0.7978845608 * (x + 0.044715 * library.pow(x, 3.0))))


def rms_norm(library: Any, x: Any, y: Any) -> Any:
    """Rows over the root of their mean square, as in Llama."""
    return y[0, 0] * (x * library.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def swiglu(library: Any, x: Any, y: Any) -> Any:
    """A gate of SiLU."""
    return x * library.sigmoid(x) * y


def rotary(library: Any, x: Any, y: Any) -> Any:
    """Pairs of a head's numbers turned by an angle for each position."""
    half = x.shape[-1] // 2
    angle = y[0, :, :half].detach()
    turned = library.cat((-x[..., half:], x[..., :half]), -1)
    cos, sin = (library.cat((f(angle), f(angle)), -1) for f in (library.cos, library.sin))
    return x * cos + turned * sin


def masked_attention(library: Any, x: Any, y: Any) -> Any:
    """Causal attention of one head."""
    scores = x @ y.transpose(1, 2) / x.shape[-1] ** 0.5
    mask = library.ones(x.shape[1], x.shape[1], dtype=library.bool).tril()
    return library.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ y


CHAINS = {"NewGELU": new_gelu, "RMSNorm": rms_norm, "SwiGLU": swiglu, "rotary embedding": rotary,
          "masked attention": masked_attention}  # fmt: skip
ROWS = (8, 128, 256)


def chain(library: Any, function: Any, compiled: bool) -> Any:
    """A function that computes a chain and its gradients."""
    draw = np.random.default_rng(0)
    x, y = (library.from_numpy(draw.standard_normal(ROWS, np.float32)).requires_grad_() for _ in range(2))

    def loss(x: Any, y: Any) -> Any:
        return function(library, x, y)

    computed = library.compile(loss, fullgraph=True) if compiled else loss
    g = library.ones(*ROWS)

    def run() -> None:
        x.grad = y.grad = None
        computed(x, y).backward(g)

    for _ in range(3):
        run()
    return run


CONFIGS = ("digits-mlp", "digits-cnn")  # whose layers are a chain


def trained(name: str, compiled: bool) -> Any:
    """A function that takes a step of the trainer, as for a config."""
    parts = build(load(name, ["device=cpu", f"train.compile={'auto' if compiled else 'false'}"]))
    trainer = Trainer(parts, Events(), None, {})
    parts.train_mode()
    batch = next(iter(parts.loaders["train"]))

    def run() -> None:
        trainer._train_step([(parts.place(batch[0]), parts.place(batch[1]))])

    for _ in range(WARM):
        run()
    return run


def trained_by_torch(name: str) -> Any:
    """The same step of a loop with PyTorch, which reads the loss, and counts the correct predictions."""
    parts = build(load(name, ["device=cpu"]))
    model = torch.nn.Sequential(*[eval(row.layer, vars(torch.nn).copy()) for row in parts.rows])
    options = parts.config.optimizer.component
    optimizer = getattr(torch.optim, options.name)(model.parameters(), *options.args, **options.kwargs)
    criterion = torch.nn.CrossEntropyLoss()
    x, y = (torch.from_numpy(side.numpy().copy()) for side in next(iter(parts.loaders["train"])))

    def run() -> None:
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.item()
        loss.backward()
        optimizer.step()
        (output.argmax(1) == y).sum().item()

    for _ in range(4):
        run()
    return run


def shown(name: str, eager: Any, compiled: Any, by_torch: Any) -> None:
    """A line for a network: the times of its step, and the ratios to those without and to PyTorch's."""
    to_eager, own, _ = compared(time.process_time, compiled, eager, PAIRS)
    to_torch, _, theirs = compared(time.process_time, compiled, by_torch, PAIRS)
    print(
        f"{name:<34} {own * 1e6:9.0f} µs, × {1 / to_eager:.2f} of eager, × {1 / to_torch:.2f} of PyTorch's {theirs * 1e6:.0f} µs"
    )


def main(only: str) -> None:
    """Print a line for each network, chain and config, or for one kind of them."""
    tdt.set_num_threads(1)
    torch.set_num_threads(1)
    print(settings())
    for name, network in NETWORKS.items() if only in ("all", "networks") else ():
        for what in ("loss", "step"):
            shown(f"{name}: {what}", step(tdt, *network), step(tdt, *network, what), step(torch, *network))
    for name, function in CHAINS.items() if only in ("all", "chains") else ():
        shown(name, chain(tdt, function, False), chain(tdt, function, True), chain(torch, function, False))
    for name in CONFIGS if only in ("all", "trainer") else ():
        shown(f"tdt train {name}", trained(name, False), trained(name, True), trained_by_torch(name))


if __name__ == "__main__":
    main(*arguments(__doc__, only="all"))

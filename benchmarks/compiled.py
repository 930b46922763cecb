"""Training steps with `tdt.compile`: ratio of their time to those without it, and to PyTorch's without its compiler.

Processor time of one thread. The loss and its gradients are compiled; clearing gradients and the optimizer's step are not.

python -m benchmarks.compiled
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import tdt
from benchmarks._pairs import arguments, ratios, report, settings, timed

PAIRS = 9


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
    "LSTM 16, batch 16": (lstm, (16, 16), True),
    "GPT 4 × 128, batch 8": (gpt, (8, 32), True),
}


def step(library: Any, build: Any, shape: tuple[int, ...], characters: bool, compiled: bool) -> Any:
    """A function that takes an optimizer step with Adam."""
    draw = np.random.default_rng(0)
    values = draw.integers(0, 20, shape) if characters else draw.standard_normal(shape).astype(np.float32)
    x, y = library.from_numpy(values), library.from_numpy(draw.integers(0, 10, shape[0]))
    library.manual_seed(0)
    model, criterion = build(library), library.nn.CrossEntropyLoss()
    optimizer = library.optim.Adam(model.parameters())

    def loss(x: Any, y: Any) -> Any:
        return criterion(model(x), y)

    computed = library.compile(loss, fullgraph=True) if compiled else loss

    def run() -> None:
        optimizer.zero_grad()
        computed(x, y).backward()
        optimizer.step()

    for _ in range(3):
        run()
    return run


def main() -> None:
    """Print two lines for each network."""
    tdt.set_num_threads(1)
    torch.set_num_threads(1)
    print(settings())
    for name, network in NETWORKS.items():
        ours = step(tdt, *network, True)
        count = max(1, round(0.1 / timed(ours, 3)()))
        for other, theirs in (("without", step(tdt, *network, False)), ("PyTorch", step(torch, *network, False))):
            report(f"{name}, to {other}", ratios(timed(ours, count), timed(theirs, count), PAIRS))


if __name__ == "__main__":
    main(*arguments(__doc__))

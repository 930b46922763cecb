"""The benchmark workloads: training steps and inference, written once for both libraries.

A workload is a function of the library (`tdt` or `torch`) and the memory format that gives a step: a function without
arguments that does one training step (or one inference) and returns its loss. Weights come from the same seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], float]


def images(library: Any, count: int, channels: int, size: int, classes: int, last: bool) -> tuple[Any, Any]:
    """A batch (count, channels, size, size) of noise and its labels."""
    rng = np.random.default_rng(0)
    x = library.from_numpy(rng.standard_normal((count, channels, size, size), np.float32))
    y = library.from_numpy(rng.integers(0, classes, count))
    return x.contiguous(memory_format=library.channels_last) if last else x, y


def training(library: Any, model: Any, optimizer: Any, x: Any, y: Any, loss: str = "CrossEntropyLoss") -> Step:
    """A step of the usual loop, on one batch."""
    loss_fn = getattr(library.nn, loss)()

    def step() -> float:
        optimizer.zero_grad()
        value = loss_fn(model(x), y)
        value.backward()
        optimizer.step()
        return value.item()

    return step


def inference(library: Any, model: Any, x: Any, y: Any) -> Step:
    """A forward pass in eval mode, without gradients."""
    model.eval()

    def step() -> float:
        with library.no_grad():
            return library.nn.functional.cross_entropy(model(x), y).item()

    return step


def mlp(*widths: int, batch: int) -> Callable[[Any, bool], Step]:
    """Linear layers with ReLU between them; Adam."""

    def build(library: Any, last: bool) -> Step:
        nn = library.nn
        library.manual_seed(0)
        layers: list[Any] = []
        for inside, outside in itertools.pairwise(widths):
            layers += [nn.Linear(inside, outside), nn.ReLU()]
        model = nn.Sequential(*layers[:-1])
        rng = np.random.default_rng(0)
        x = library.from_numpy(rng.standard_normal((batch, widths[0]), np.float32))
        y = library.from_numpy(rng.integers(0, widths[-1], batch))
        return training(library, model, library.optim.Adam(model.parameters()), x, y)

    return build


def bags(rows: int, width: int, tokens: int, batch: int, classes: int = 4) -> Callable[[Any, bool], Step]:
    """A classifier of texts: the mean embedding of their tokens and a linear layer; SGD."""

    def build(library: Any, last: bool) -> Step:
        nn = library.nn
        library.manual_seed(0)
        model = nn.Sequential(nn.EmbeddingBag(rows, width), nn.Linear(width, classes))
        rng = np.random.default_rng(0)
        x = library.from_numpy(rng.integers(0, rows, (batch, tokens)))
        y = library.from_numpy(rng.integers(0, classes, batch))
        return training(library, model, library.optim.SGD(model.parameters(), lr=0.1), x, y)

    return build


def autoencoder(library: Any, last: bool) -> Step:
    """Two convolutions of stride 2 from 28×28 images to 32 channels of 7×7, and two transposed ones back; Adam."""
    nn = library.nn
    library.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1), nn.ReLU(),
        nn.ConvTranspose2d(16, 1, 3, stride=2, padding=1, output_padding=1),
    )  # fmt: skip
    if last:
        model.to(memory_format=library.channels_last)
    x, _ = images(library, 64, 1, 28, 10, last)
    return training(library, model, library.optim.Adam(model.parameters()), x, x, "MSELoss")


def lenet(library: Any) -> Any:
    """Two convolutions, pooling, dropout and 128 hidden units, for 28×28 images."""
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip


def resnet20(library: Any) -> Any:
    """The residual network of 20 layers for 32×32 images (He et al., 2016)."""
    nn, pad = library.nn, library.nn.functional.pad

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int):
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.relu = nn.ReLU()
            self.stride, self.extra = stride, outside - inside

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            if self.extra:
                half = self.extra // 2
                x = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, half))
            return self.relu(y + x)

    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(inside, outside, 1 if inside == outside else 2) for inside, outside in itertools.pairwise(widths)]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def network(
    make: Callable[[Any], Any], channels: int, size: int, trains: bool, batch: int = 64, **sgd: float
) -> Callable[[Any, bool], Step]:
    """A network on a batch of images, under SGD or for inference."""

    def build(library: Any, last: bool) -> Step:
        library.manual_seed(0)
        model = make(library)
        if last:
            model.to(memory_format=library.channels_last)
        x, y = images(library, batch, channels, size, 10, last)
        if not trains:
            return inference(library, model, x, y)
        return training(library, model, library.optim.SGD(model.parameters(), **sgd), x, y)

    return build


def gpt_model(library: Any, layers: int, heads: int, width: int, length: int, tokens: int) -> Any:
    """A decoder-only Transformer with the norms before its blocks (Radford et al., 2019)."""
    nn, F = library.nn, library.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            q, k, v = (
                part.view(n, t, heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, dim=2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(n, t, width))
            return x + self.mlp(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

        def forward(self, indices: Any) -> Any:
            x = self.token(indices) + self.position(library.arange(indices.shape[1], device=indices.device))
            return self.head(self.norm(self.blocks(x))).view(-1, tokens)

    return GPT()


def gpt(layers: int, heads: int, width: int, length: int, batch: int, tokens: int = 65) -> Callable[[Any, bool], Step]:
    """The next character's prediction at every place of some texts; AdamW."""

    def build(library: Any, last: bool) -> Step:
        library.manual_seed(0)
        model = gpt_model(library, layers, heads, width, length, tokens)
        text = np.random.default_rng(0).integers(0, tokens, (batch, length + 1))
        x, y = library.from_numpy(text[:, :-1].copy()), library.from_numpy(text[:, 1:].reshape(-1).copy())
        return training(library, model, library.optim.AdamW(model.parameters(), lr=1e-3), x, y)

    return build


def language_model(kind: str, steps: int = 64, batch: int = 32) -> Callable[[Any, bool], Step]:
    """The next of 64 characters from all before: an embedding, two recurrent layers of 128, a linear layer; Adam."""

    def build(library: Any, last: bool) -> Step:
        nn = library.nn
        library.manual_seed(0)
        table, layers, head = nn.Embedding(64, 128), getattr(nn, kind)(128, 128, 2), nn.Linear(128, 64)
        optimizer = library.optim.Adam([p for part in (table, layers, head) for p in part.parameters()])
        text = library.from_numpy(np.random.default_rng(0).integers(0, 64, (steps + 1, batch)))

        def step() -> float:
            optimizer.zero_grad()
            out, _ = layers(table(text[:-1]))
            loss = nn.functional.cross_entropy(head(out).reshape(-1, 64), text[1:].reshape(-1))
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    return build


def optimizer_step(name: str, tensors: int, **how: Any) -> Callable[[Any, bool], Step]:
    """One step of an optimizer over a million parameters in so many tensors; its "loss" is a parameter."""

    def build(library: Any, last: bool) -> Step:
        rng = np.random.default_rng(0)
        params = []
        for _ in range(tensors):
            p = library.from_numpy(rng.standard_normal(1_000_000 // tensors, np.float32)).requires_grad_()
            p.grad = library.from_numpy(rng.standard_normal(1_000_000 // tensors, np.float32))
            params.append(p)
        optimizer = getattr(library.optim, name)(params, **how)

        def step() -> float:
            optimizer.step()
            return params[0][0].item()

        return step

    return build


WORKLOADS: dict[str, Callable[[Any, bool], Step]] = {
    "MLP 64-64-10, batch 32, Adam": mlp(64, 64, 10, batch=32),
    "MLP 784-512-256-10, batch 128, Adam": mlp(784, 512, 256, 10, batch=128),
    "LeNet, batch 64, SGD": network(lenet, 1, 28, True, lr=0.01),
    "ResNet-20, batch 64, SGD": network(resnet20, 3, 32, True, lr=0.1, momentum=0.9),
    "ConvTranspose autoencoder": autoencoder,
    "LeNet, batch 64, inference": network(lenet, 1, 28, False),
    "ResNet-20, batch 64, inference": network(resnet20, 3, 32, False),
    "embedding-bag classifier": bags(20_000, 64, tokens=64, batch=256),
    "GPT: 4 layers, 4 heads, 128 wide, 64 long, batch 12, AdamW": gpt(4, 4, 128, 64, 12),
    "LSTM, 2 layers of 128, 64 steps, batch 32": language_model("LSTM"),
    "GRU, 2 layers of 128, 64 steps, batch 32": language_model("GRU"),
    "SGD step, 40 tensors": optimizer_step("SGD", 40, lr=0.01, momentum=0.9),
    "Adam step, 40 tensors": optimizer_step("Adam", 40),
    "Adam step, 1 tensor": optimizer_step("Adam", 1),
    "AdamW step, 40 tensors": optimizer_step("AdamW", 40),
    "NAdam step, 40 tensors": optimizer_step("NAdam", 40),
    "RMSprop step, 40 tensors": optimizer_step("RMSprop", 40),
    "Adagrad step, 40 tensors": optimizer_step("Adagrad", 40),
}
IMAGES = tuple(name for name in WORKLOADS if "Net" in name or "Conv" in name)  # those that have a memory format


def convolutions(width: int) -> Callable[[Any], Any]:
    """Two 3×3 convolutions of so many channels on 16×16 images, and a linear layer on their means."""

    def make(library: Any) -> Any:
        nn = library.nn
        return nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
        )  # fmt: skip

    return make


# For benchmarks/scaling.py: workloads of any width and batch size.
FAMILIES: dict[str, Callable[[int, int], Callable[[Any, bool], Step]]] = {
    "mlp": lambda width, batch: mlp(width, width, 10, batch=batch),
    "cnn": lambda width, batch: network(convolutions(width), 3, 16, True, batch, lr=0.01),
}


def find(name: str) -> Callable[[Any, bool], Step]:
    """A workload by its name, or one of a family by "family width batch"."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    family, width, batch = name.split()
    return FAMILIES[family](int(width), int(batch))

"""Networks of sequences: newer Transformers, convolutions as long as the sequence, sets, characters and forecasts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from benchmarks.families._network import Network, classifier

Arrays = tuple[np.ndarray, ...]


def llama(library: Any, size: int) -> Network:
    """RMSNorm, rotary positions, several queries for a key, and gated linear units (Touvron et al., 2023)."""
    nn, F = library.nn, library.nn.functional
    width, heads, shared, depth, vocabulary, length, batch = (
        (64, 4, 2, 2, 256, 32, 8),
        (256, 8, 4, 4, 4096, 128, 4),
    )[size]
    each, hidden = width // heads, 8 * width // 3 // 16 * 16

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.kv = nn.Linear(width, 2 * width // shared, bias=False)
            angles = library.outer(library.arange(length).float(), 1e4 ** (-library.arange(0, each, 2).float() / each))
            self.register_buffer("cos", library.cat([angles, angles], 1).cos())
            self.register_buffer("sin", library.cat([angles, angles], 1).sin())

        def turn(self, x: Any) -> Any:
            a, b = x.chunk(2, -1)
            return x * self.cos + library.cat([-b, a], -1) * self.sin

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            q = self.turn(self.q(x).view(n, t, heads, each).transpose(1, 2))
            k, v = (y.view(n, t, heads // shared, each).transpose(1, 2) for y in self.kv(x).chunk(2, -1))
            k, v = (y.repeat_interleave(shared, 1) for y in (self.turn(k), v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o(y.transpose(1, 2).reshape(n, t, width))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2, self.attention = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6), Attention()
            self.gate, self.up, self.down = (
                nn.Linear(a, b, bias=False) for a, b in ((width, hidden), (width, hidden), (hidden, width))
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            y = self.norm2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    model = nn.Sequential(nn.Embedding(vocabulary, width), *(Block() for _ in range(depth)), nn.RMSNorm(width, 1e-6),
                          nn.Linear(width, vocabulary, bias=False))  # fmt: skip

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        text = rng.integers(0, vocabulary, (count, length + 1))
        return text[:, :-1].copy(), text[:, 1:].copy()

    return Network(library, model, sample, lambda x, y: F.cross_entropy(model(x).flatten(0, 1), y.flatten()),
                   lambda x, y: model(x), batch, ("AdamW", {"lr": 3e-4, "weight_decay": 0.1}))  # fmt: skip


def conformer(library: Any, size: int) -> Network:
    """Attention and depthwise convolutions between halves of MLPs, for speech (Gulati et al., 2020)."""
    nn = library.nn
    width, depth, kernel, frames, batch = ((48, 1, 7, 40, 4), (144, 2, 31, 120, 4))[size]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = (
                nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1),
                              nn.Linear(4 * width, width))
                for _ in range(2)
            )  # fmt: skip
            self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, 0.0, batch_first=True)
            self.convolution = nn.Sequential(
                nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
                nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1),
            )  # fmt: skip
            self.inside, self.last = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            x = x + 0.5 * self.before(x)
            y = self.norm(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            x = x + self.convolution(self.inside(x).transpose(1, 2)).transpose(1, 2)
            return self.last(x + 0.5 * self.after(x))

    class Conformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU()
            )
            self.linear, self.out = nn.Linear(width * 10, width), nn.Linear(width, 30)
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))

        def forward(self, x: Any) -> Any:
            y = self.first(x.unsqueeze(1)).transpose(1, 2).flatten(2)
            return self.out(self.blocks(self.linear(y))).mean(1)

    return classifier(library, Conformer(), (4 * frames, 40), 30, batch, "Adam", 1e-3)


def long_convolution(library: Any, size: int) -> Network:
    """Convolutions as long as the sequence, by FFT, with kernels of diagonal state spaces (Gu et al., 2022)."""
    nn, F = library.nn, library.nn.functional
    width, states, depth, length, batch = ((32, 8, 2, 64, 8), (128, 16, 4, 512, 8))[size]

    class StateSpace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Parameter(library.rand(width) * 4 - 6)
            self.decay = nn.Parameter(library.full((width, states), 0.5).log())
            self.angle = nn.Parameter(math.pi * library.arange(states).float().repeat(width, 1))
            self.real, self.imaginary = (nn.Parameter(library.randn(width, states)) for _ in range(2))
            self.skip, self.norm, self.mix = (
                nn.Parameter(library.ones(width)),
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
            )

        def kernel(self) -> Any:
            step, time = self.step.exp(), library.arange(length).float()
            decay = ((-self.decay.exp()) * step.unsqueeze(1)).unsqueeze(-1) * time
            angle = (self.angle * step.unsqueeze(1)).unsqueeze(-1) * time
            wave = self.real.unsqueeze(-1) * angle.cos() - self.imaginary.unsqueeze(-1) * angle.sin()
            return 2 * (decay.exp() * wave).sum(1)

        def forward(self, x: Any) -> Any:
            u = self.norm(x).transpose(1, 2)
            spectrum = library.fft.rfft(u, n=2 * length) * library.fft.rfft(self.kernel(), n=2 * length)
            y = library.fft.irfft(spectrum, n=2 * length)[..., :length] + u * self.skip.unsqueeze(-1)
            return x + F.glu(self.mix(F.gelu(y).transpose(1, 2)), -1)

    class Last(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mean(1)

    model = nn.Sequential(nn.Linear(1, width), *(StateSpace() for _ in range(depth)), Last(), nn.Linear(width, 10))
    return classifier(library, model, (length, 1), 10, batch, "AdamW", 1e-3)


def linear_attention(library: Any, size: int) -> Network:
    """Causal attention with positive features in the place of the softmax (Katharopoulos et al., 2020)."""
    nn, F = library.nn, library.nn.functional
    width, heads, depth, length, batch = ((32, 4, 2, 24, 4), (128, 8, 4, 64, 4))[size]
    each = width // heads

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            q, k, v = (y.view(n, t, heads, each) for y in self.qkv(self.norm(x)).chunk(3, -1))
            q, k = F.elu(q) + 1, F.elu(k) + 1
            sums = library.einsum("nthd,nthe->nthde", k, v).cumsum(1)
            y = library.einsum("nthd,nthde->nthe", q, sums) / ((q * k.cumsum(1)).sum(-1, keepdim=True) + 1e-6)
            return x + self.out(y.reshape(n, t, width))

    class Last(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:, -1]

    model = nn.Sequential(nn.Linear(8, width), *(Block() for _ in range(depth)), Last(), nn.Linear(width, 10))
    return classifier(library, model, (length, 8), 10, batch, "Adam", 1e-3)


def perceiver(library: Any, size: int) -> Network:
    """A few latent vectors that attend to many inputs (Jaegle et al., 2021)."""
    nn = library.nn
    width, latents, inputs, depth, batch = ((32, 8, 100, 2, 4), (128, 32, 784, 4, 4))[size]

    class Attend(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
            self.mlp = nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
            )

        def forward(self, x: Any, context: Any) -> Any:
            x = x + self.attention(self.norm(x), context, context)[0]
            return x + self.mlp(x)

    class Perceiver(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start, self.embed = nn.Parameter(library.randn(latents, width) * 0.02), nn.Linear(3, width)
            self.places = nn.Parameter(library.randn(inputs, width) * 0.02)
            self.cross, self.own = (nn.ModuleList(Attend() for _ in range(depth)) for _ in range(2))
            self.out = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            inputs = self.embed(x) + self.places
            y = self.start.expand(len(x), -1, -1)
            for cross, own in zip(self.cross, self.own, strict=True):
                y = cross(y, inputs)
                y = own(y, y)
            return self.out(y.mean(1))

    return classifier(library, Perceiver(), (inputs, 3), 10, batch, "Adam", 1e-3)


def character_cnn(library: Any, size: int) -> Network:
    """Words from characters by convolutions and highways, then an LSTM (Kim et al., 2016)."""
    nn, F = library.nn, library.nn.functional
    width, filters, hidden, words, batch = ((12, (16, 16, 16), 48, 12, 8), (16, (50, 100, 150), 300, 35, 8))[size]
    total, letters = sum(filters), 12

    class CharacterCNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(60, width)
            self.convs = nn.ModuleList(nn.Conv1d(width, n, k + 2) for k, n in enumerate(filters))
            self.gate, self.change = nn.Linear(total, total), nn.Linear(total, total)
            self.lstm, self.out = nn.LSTM(total, hidden, batch_first=True), nn.Linear(hidden, 500)

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            y = self.embedding(x.view(n * t, letters)).transpose(1, 2)
            y = library.cat([conv(y).tanh().max(2).values for conv in self.convs], 1)
            gate = self.gate(y).sigmoid()
            y = gate * F.relu(self.change(y)) + (1 - gate) * y
            return self.out(self.lstm(y.view(n, t, total))[0])

    model = CharacterCNN()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return rng.integers(0, 60, (count, words, letters)), rng.integers(0, 500, (count, words))

    return Network(library, model, sample, lambda x, y: F.cross_entropy(model(x).flatten(0, 1), y.flatten()),
                   lambda x, y: model(x), batch, ("SGD", {"lr": 0.1}))  # fmt: skip


def forecast(library: Any, size: int) -> Network:
    """Blocks of MLPs that explain what the blocks before left of a series (Oreshkin et al., 2020)."""
    nn, F = library.nn, library.nn.functional
    width, blocks, past, future, batch = ((32, 3, 20, 5, 32), (256, 12, 120, 24, 256))[size]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [past, width, width, width, width]
            self.body = nn.Sequential(
                *(layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU()))
            )
            self.past, self.future = nn.Linear(width, past), nn.Linear(width, future)

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            return self.past(y), self.future(y)

    class Forecast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(blocks))

        def forward(self, x: Any) -> Any:
            level = x[:, -1:]
            x, y = x - level, level
            for block in self.blocks:
                past, future = block(x)
                x, y = x - past, y + future
            return y

    model = Forecast()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        series = rng.standard_normal((count, past + future)).cumsum(1).astype(np.float32)
        return series[:, :past].copy(), series[:, past:].copy()

    return Network(library, model, sample, lambda x, y: F.smooth_l1_loss(model(x), y), lambda x, y: model(x), batch,
                   ("Adam", {"lr": 1e-3}))  # fmt: skip

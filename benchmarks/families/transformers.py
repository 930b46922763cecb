"""Transformers and their kin, on images, texts and pairs of texts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.families._network import Network, classifier
from benchmarks.workloads import gpt_model


def _mlp(nn: Any, width: int, dropout: float = 0.0, expand: int = 4) -> Any:
    layers = [nn.Linear(width, expand * width), nn.GELU(), nn.Linear(expand * width, width)]
    return nn.Sequential(*layers, nn.Dropout(dropout)) if dropout else nn.Sequential(*layers)


def vit(library: Any, size: int) -> Network:
    """Patches as tokens of a Transformer (Dosovitskiy et al., 2021)."""
    nn, F = library.nn, library.nn.functional
    side, patch, width, heads, depth, batch = ((32, 4, 96, 3, 2, 16), (64, 8, 192, 3, 6, 8))[size]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj, self.mlp = nn.Linear(width, 3 * width), nn.Linear(width, width), _mlp(nn, width)

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v)
            x = x + self.proj(y.transpose(1, 2).reshape(n, t, width))
            return x + self.mlp(self.norm2(x))

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.token = nn.Parameter(library.zeros(1, 1, width))
            self.position = nn.Parameter(library.zeros(1, (side // patch) ** 2 + 1, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = library.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
            return self.head(self.norm(self.blocks(x))[:, 0])

    return classifier(library, ViT(), (3, side, side), 100, batch, "AdamW", 1e-3)


def _apart(cells: int, window: int, shift: int) -> np.ndarray:
    """-100 for pairs of tokens of a window (windows, 1, tokens, tokens) that are neighbours only by the shift, else 0."""
    parts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    area, count = np.zeros((cells, cells), np.int64), cells // window
    for n, (rows, columns) in enumerate(itertools.product(parts, parts)):
        area[rows, columns] = n
    area = area.reshape(count, window, count, window).transpose(0, 2, 1, 3).reshape(count * count, 1, -1)
    return (area != area.transpose(0, 2, 1)).astype(np.float32)[:, None] * np.float32(-100)


def _swin_block(library: Any, window: int) -> Any:
    """The class of a block: attention within windows of `window`² tokens, shifted or not, and an MLP."""
    nn = library.nn
    at = np.stack(np.meshgrid(np.arange(window), np.arange(window), indexing="ij"), -1).reshape(-1, 2)
    relative = at[:, None] - at[None] + window - 1
    places = library.from_numpy(relative[..., 0] * (2 * window - 1) + relative[..., 1])

    class Block(nn.Module):
        def __init__(self, width: int, heads: int, cells: int, shift: int):
            super().__init__()
            self.norm1, self.norm2, self.mlp = nn.LayerNorm(width), nn.LayerNorm(width), _mlp(nn, width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.heads, self.shift = heads, shift
            self.bias = nn.Parameter(library.zeros((2 * window - 1) ** 2, heads))
            self.mask = library.from_numpy(_apart(cells, window, shift)) if shift else None

        def attend(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
            scores = scores + self.bias[places.view(-1)].view(t, t, -1).permute(2, 0, 1).contiguous()
            if self.mask is not None:
                scores = (scores.view(-1, self.mask.shape[0], self.heads, t, t) + self.mask).view(-1, self.heads, t, t)
            return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))

        def forward(self, x: Any) -> Any:
            n, h, w, c = x.shape
            y = self.norm1(x)
            if self.shift:
                y = library.roll(y, (-self.shift, -self.shift), (1, 2))
            y = y.view(n, h // window, window, w // window, window, c).permute(0, 1, 3, 2, 4, 5)
            y = self.attend(y.reshape(-1, window * window, c))
            y = y.view(n, h // window, w // window, window, window, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
            if self.shift:
                y = library.roll(y, (self.shift, self.shift), (1, 2))
            x = x + y
            return x + self.mlp(self.norm2(x))

    return Block


def swin(library: Any, size: int) -> Network:
    """Attention within windows that are shifted in every other block, with relative positions (Liu et al., 2021)."""
    nn = library.nn
    side, width, heads, stages, batch = ((32, 48, 3, (2,), 8), (64, 64, 4, (2, 2), 8))[size]
    window = 4
    Block = _swin_block(library, window)

    class Merge(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

        def forward(self, x: Any) -> Any:
            parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
            return self.linear(self.norm(library.cat(parts, -1)))

    class Swin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, layers, c, cells = nn.Conv2d(3, width, 4, 4), [], width, side // 4
            for n, depth in enumerate(stages):
                if n:
                    layers.append(Merge(c))
                    c, cells = 2 * c, cells // 2
                for m in range(depth):
                    layers.append(Block(c, heads * c // width, cells, window // 2 if m % 2 and cells > window else 0))
            self.layers, self.norm, self.head = nn.Sequential(*layers), nn.LayerNorm(c), nn.Linear(c, 100)

        def forward(self, x: Any) -> Any:
            x = self.layers(self.patches(x).permute(0, 2, 3, 1))
            return self.head(self.norm(x).mean((1, 2)))

    return classifier(library, Swin(), (3, side, side), 100, batch, "AdamW", 1e-3)


def mlp_mixer(library: Any, size: int) -> Network:
    """Linear layers along tokens and along channels by turns (Tolstikhin et al., 2021)."""
    nn = library.nn
    side, patch, width, depth, batch = ((32, 4, 96, 3, 16), (64, 8, 256, 4, 16))[size]
    tokens = (side // patch) ** 2

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.along_tokens, self.along_channels = _mlp(nn, tokens, expand=2), _mlp(nn, width)

        def forward(self, x: Any) -> Any:
            x = x + self.along_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.along_channels(self.norm2(x))

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.blocks = (
                nn.Conv2d(3, width, patch, patch),
                nn.Sequential(*(Block() for _ in range(depth))),
            )
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

        def forward(self, x: Any) -> Any:
            return self.head(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2))).mean(1))

    return classifier(library, Mixer(), (3, side, side), 100, batch, "AdamW", 1e-3)


def gpt(library: Any, size: int) -> Network:
    """The next token at every place of some texts (Radford et al., 2019)."""
    layers, heads, width, length, batch, tokens = ((2, 4, 128, 64, 8, 65), (3, 6, 384, 128, 3, 2000))[size]
    model = gpt_model(library, layers, heads, width, length, tokens)

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        text = rng.integers(0, tokens, (count, length + 1))
        return text[:, :-1].copy(), text[:, 1:].reshape(-1).copy()

    return Network(library, model, sample, lambda x, y: library.nn.functional.cross_entropy(model(x), y),
                   lambda x, y: model(x), batch)  # fmt: skip


def bert(library: Any, size: int) -> Network:
    """An encoder of padded texts, with dropout, that predicts masked tokens (Devlin et al., 2019)."""
    nn, F = library.nn, library.nn.functional
    layers, heads, width, length, batch, tokens = ((2, 2, 64, 32, 16, 1000), (4, 4, 256, 64, 8, 4000))[size]

    class BERT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(tokens, width, padding_idx=0), nn.Embedding(length, width)
            self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, tokens))

        def forward(self, x: Any) -> Any:
            y = self.dropout(self.norm(self.token(x) + self.position(library.arange(length))))
            return self.head(self.encoder(y, src_key_padding_mask=x == 0))

    model = BERT()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        x = rng.integers(1, tokens, (count, length))
        x[np.arange(length) >= rng.integers(length // 2, length + 1, (count, 1))] = 0
        y = np.where((rng.random(x.shape) < 0.15) & (x != 0), x, -100)
        y[0, 0] = 1
        return x, y.reshape(-1)

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).view(-1, tokens), y, ignore_index=-100)

    return Network(library, model, sample, loss, lambda x, y: model(x), batch)


def seq2seq(library: Any, size: int) -> Network:
    """`nn.Transformer` from one padded text to another (Vaswani et al., 2017)."""
    nn, F = library.nn, library.nn.functional
    layers, heads, width, length, batch, tokens = ((1, 4, 64, 32, 16, 500), (2, 8, 256, 48, 8, 2000))[size]

    class Seq2Seq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(tokens, width), nn.Embedding(tokens, width)
            self.position = nn.Embedding(length, width)
            self.body = nn.Transformer(width, heads, layers, layers, 4 * width, 0.1, batch_first=True)
            self.head = nn.Linear(width, tokens)
            self.mask = nn.Transformer.generate_square_subsequent_mask(length).isinf()

        def forward(self, x: Any, y: Any) -> Any:
            place, pad = self.position(library.arange(length)), x == 0
            out = self.body(self.source(x) + place, self.target(y) + place, tgt_mask=self.mask, src_key_padding_mask=pad,
                            memory_key_padding_mask=pad, tgt_is_causal=True)  # fmt: skip
            return self.head(out)

    model = Seq2Seq()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        x, y = rng.integers(1, tokens, (count, length)), rng.integers(1, tokens, (count, length + 1))
        x[np.arange(length) >= rng.integers(length // 2, length + 1, (count, 1))] = 0
        return x, y[:, :-1].copy(), y[:, 1:].reshape(-1).copy()

    def loss(x: Any, y: Any, labels: Any) -> Any:
        return F.cross_entropy(model(x, y).view(-1, tokens), labels, label_smoothing=0.1)

    return Network(library, model, sample, loss, lambda x, y, labels: model(x, y), batch, ("Adam", {"lr": 5e-4}))

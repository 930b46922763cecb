"""Networks for tables, sequences, pairs, graphs and games."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.families._network import Network, classifier


def _linear_layers(nn: Any, *widths: int) -> Any:
    """Linear layers with ReLU between them."""
    layers = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def mlp(library: Any, size: int) -> Network:
    """Linear layers with ReLU between them, as for digits."""
    widths, batch = (((784, 256, 128, 10), 64), ((1024, 1024, 512, 100), 256))[size]
    model = _linear_layers(library.nn, *widths)
    return classifier(library, model, widths[:1], widths[-1], batch, "Adam", 1e-3)


def tabular(library: Any, size: int) -> Network:
    """Embeddings of categories and normalised numbers into linear layers with batch norm and dropout (Guo et al., 2016)."""
    nn = library.nn
    kinds, numbers, widths, batch = (
        ((10, 50, 100, 7), 12, (200, 100), 256),
        ((1000, 365, 50, 24, 12, 7) * 2, 30, (512, 256), 512),
    )[size]

    class Tabular(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [min(50, (n + 1) // 2) for n in kinds]
            self.tables = nn.ModuleList(nn.Embedding(n, k) for n, k in zip(kinds, sizes, strict=True))
            self.norm, layers, inside = nn.BatchNorm1d(numbers), [], sum(sizes) + numbers
            for width in widths:
                layers += [nn.Linear(inside, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Dropout(0.1)]
                inside = width
            self.layers = nn.Sequential(*layers, nn.Linear(inside, 1))

        def forward(self, categories: Any, x: Any) -> Any:
            parts = [table(categories[:, n]) for n, table in enumerate(self.tables)]
            return self.layers(library.cat([*parts, self.norm(x)], 1)).squeeze(1)

    model = Tabular()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        numeric = rng.standard_normal((count, numbers), np.float32)
        return np.stack([rng.integers(0, n, count) for n in kinds], 1), numeric, rng.random(count, np.float32)

    return Network(library, model, sample, lambda c, x, y: nn.functional.mse_loss(model(c, x), y), lambda c, x, y: model(c, x),
                   batch, ("Adam", {"lr": 1e-3}))  # fmt: skip


def _tokens(tokens: int, length: int, batch_first: bool) -> Any:
    """Texts and a label for each of their tokens."""

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        shape = (count, length) if batch_first else (length, count)
        return rng.integers(1, tokens, shape), rng.integers(0, 20, shape)

    return sample


def lstm_language_model(library: Any, size: int) -> Network:
    """The next word by an LSTM of two layers with dropout (Zaremba et al., 2014)."""
    nn, F = library.nn, library.nn.functional
    width, length, batch, tokens = ((128, 32, 16, 1000), (512, 24, 16, 2000))[size]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.lstm = nn.Embedding(tokens, width), nn.LSTM(width, width, 2, dropout=0.2)
            self.head, self.dropout = nn.Linear(width, tokens), nn.Dropout(0.2)

        def forward(self, text: Any) -> Any:
            return self.head(self.dropout(self.lstm(self.dropout(self.table(text)))[0]))

    model = Model()

    def loss(text: Any, _: Any) -> Any:
        return F.cross_entropy(model(text[:-1]).view(-1, tokens), text[1:].reshape(-1))

    return Network(library, model, _tokens(tokens, length + 1, False), loss, lambda text, _: model(text[:-1]), batch,
                   ("SGD", {"lr": 0.1}))  # fmt: skip


def bilstm_tagger(library: Any, size: int) -> Network:
    """A label for each word by an LSTM in both directions (Huang et al., 2015)."""
    nn, F = library.nn, library.nn.functional
    width, length, batch, tokens = ((64, 24, 16, 1000), (256, 40, 16, 5000))[size]

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(tokens, width)
            self.lstm = nn.LSTM(width, width, 1 + size, batch_first=True, bidirectional=True)
            self.head = nn.Linear(2 * width, 20)

        def forward(self, text: Any) -> Any:
            return self.head(self.lstm(self.table(text))[0])

    model = Tagger()

    def loss(text: Any, tags: Any) -> Any:
        return F.cross_entropy(model(text).transpose(1, 2), tags)

    return Network(library, model, _tokens(tokens, length, True), loss, lambda text, tags: model(text), batch,
                   ("Adam", {"lr": 1e-3}))  # fmt: skip


def packed_gru(library: Any, size: int) -> Network:
    """The class of texts of different lengths by a GRU over a packed sequence (Cho et al., 2014)."""
    nn, F = library.nn, library.nn.functional
    width, length, batch, tokens = ((64, 40, 16, 1000), (256, 50, 32, 5000))[size]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.gru, self.head = (
                nn.Embedding(tokens, width),
                nn.GRU(width, width, batch_first=True),
                nn.Linear(width, 5),
            )

        def forward(self, text: Any, lengths: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(
                self.table(text), lengths, batch_first=True, enforce_sorted=False
            )
            return self.head(self.gru(packed)[1][-1])

    model = Model()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return (
            rng.integers(1, tokens, (count, length)),
            rng.integers(length // 4, length + 1, count),
            rng.integers(0, 5, count),
        )

    return Network(library, model, sample, lambda x, lengths, y: F.cross_entropy(model(x, lengths), y),
                   lambda x, lengths, y: model(x, lengths), batch, ("Adam", {"lr": 1e-3}))  # fmt: skip


def recommender(library: Any, size: int) -> Network:
    """Products of embeddings and an MLP on them, for users and items (He et al., 2017)."""
    nn, F = library.nn, library.nn.functional
    users, items, width, batch = ((1000, 500, 32, 512), (20_000, 5000, 64, 1024))[size]

    class NCF(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(n, width) for n in (users, items, users, items))
            self.mlp = _linear_layers(nn, 2 * width, 2 * width, width, width // 2)
            self.head = nn.Linear(width + width // 2, 1)

        def forward(self, user: Any, item: Any) -> Any:
            a, b, c, d = (table(index) for table, index in zip(self.tables, (user, item, user, item), strict=True))
            return self.head(library.cat([a * b, self.mlp(library.cat([c, d], 1))], 1)).squeeze(1)

    model = NCF()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return (
            rng.integers(0, users, count),
            rng.integers(0, items, count),
            rng.integers(0, 2, count).astype(np.float32),
        )

    return Network(library, model, sample, lambda u, i, y: F.binary_cross_entropy_with_logits(model(u, i), y),
                   lambda u, i, y: model(u, i), batch, ("Adam", {"lr": 1e-3}))  # fmt: skip


def siamese(library: Any, size: int) -> Network:
    """Embeddings of images on a sphere, by the triplet margin loss (Schroff et al., 2015)."""
    nn, F = library.nn, library.nn.functional
    batch, (a, b, c) = ((8, (16, 32, 64)), (16, (32, 64, 128)))[size]
    model = nn.Sequential(
        nn.Conv2d(1, a, 5, padding=2), nn.PReLU(), nn.MaxPool2d(2), nn.Conv2d(a, b, 3, padding=1), nn.PReLU(), nn.MaxPool2d(2),
        nn.Conv2d(b, c, 3, padding=1), nn.PReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * c, 64),
    )  # fmt: skip

    def embed(x: Any) -> Any:
        return F.normalize(model(x), dim=1)

    def loss(x: Any, positive: Any, negative: Any) -> Any:
        return F.triplet_margin_loss(embed(x), embed(positive), embed(negative), margin=0.5)

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return tuple(rng.standard_normal((count, 1, 28, 28), np.float32) for _ in range(3))

    return Network(library, model, sample, loss, lambda x, positive, negative: embed(x), batch, ("Adam", {"lr": 1e-3}))


def graph_convolution(library: Any, size: int) -> Network:
    """Messages along edges, added up at nodes by `index_add` (Kipf and Welling, 2017); a batch is a graph of 64 nodes each."""
    nn, F = library.nn, library.nn.functional
    width, inside, batch, degree = ((64, 32, 16, 5), (128, 128, 32, 8))[size]

    class GraphConv(nn.Module):
        def __init__(self, inside: int, outside: int):
            super().__init__()
            self.linear = nn.Linear(inside, outside, bias=False)
            self.bias = nn.Parameter(library.zeros(outside))

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            ones = library.ones(source.shape[0])
            scale = library.zeros(x.shape[0]).index_add(0, target, ones).clamp(min=1).rsqrt()
            weights = scale[source] * scale[target]
            y = self.linear(x)
            messages = y.index_select(0, source) * weights.unsqueeze(1)
            return library.zeros_like(y).index_add(0, target, messages) + self.bias

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.dropout = GraphConv(inside, width), GraphConv(width, 7), nn.Dropout(0.5)

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges[0], edges[1]
            y = self.dropout(F.relu(self.first(x, source, target)))
            return F.log_softmax(self.second(y, source, target), 1)

    model = GCN()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        nodes = 64 * count
        return (rng.standard_normal((nodes, inside), np.float32), rng.integers(0, nodes, (2, degree * nodes)),
                rng.integers(0, 7, nodes))  # fmt: skip

    def loss(x: Any, edges: Any, y: Any) -> Any:
        return F.nll_loss(model(x, edges), y)

    return Network(library, model, sample, loss, lambda x, edges, y: model(x, edges), batch, ("Adam", {"lr": 0.01}))


def dqn(library: Any, size: int) -> Network:
    """A step of Q-learning against a target network (Mnih et al., 2015), on the states of small games."""
    nn, F = library.nn, library.nn.functional
    states, actions, width, batch = ((4, 2, 128, 256), (64, 18, 512, 256))[size]
    model, target = (_linear_layers(nn, states, width, width, actions) for _ in range(2))
    target.load_state_dict(model.state_dict())

    def loss(state: Any, action: Any, reward: Any, following: Any, done: Any) -> Any:
        value = model(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with library.no_grad():
            goal = reward + 0.99 * target(following).max(1).values * (1 - done)
        return F.smooth_l1_loss(value, goal)

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return (rng.standard_normal((count, states), np.float32), rng.integers(0, actions, count), rng.random(count, np.float32),
                rng.standard_normal((count, states), np.float32), rng.integers(0, 2, count).astype(np.float32))  # fmt: skip

    return Network(library, model, sample, loss, lambda state, *_: model(state), batch, ("Adam", {"lr": 1e-3}))

"""Networks of gathers and scatters, bags, experts, points, audio, capsules, flows and cells."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from benchmarks.families._network import Network, classifier, conv_bn, residual

Arrays = tuple[np.ndarray, ...]


def graph_attention(library: Any, size: int) -> Network:
    """Messages along edges, weighted by a softmax over those of a node (Veličković et al., 2018), for graphs of 64 nodes."""
    nn, F = library.nn, library.nn.functional
    inside, width, heads, batch, degree = ((32, 8, 4, 8, 5), (128, 16, 8, 16, 8))[size]

    class GraphAttention(nn.Module):
        def __init__(self, inside: int, width: int, heads: int):
            super().__init__()
            self.linear, self.heads = nn.Linear(inside, heads * width, bias=False), heads
            self.target, self.source = (nn.Parameter(library.randn(heads, width) / math.sqrt(width)) for _ in range(2))

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            y = self.linear(x).view(len(x), self.heads, -1)
            scores = F.leaky_relu((y * self.source).sum(-1)[source] + (y * self.target).sum(-1)[target], 0.2)
            index = target.unsqueeze(1).expand(-1, self.heads)
            highest = library.full((len(x), self.heads), -1e9).scatter_reduce(0, index, scores.detach(), "amax")
            weights = (scores - highest[target]).exp()
            total = library.zeros(len(x), self.heads).scatter_add(0, index, weights)
            messages = y[source] * (weights / total[target]).unsqueeze(2)
            return library.zeros_like(y).index_add(0, target, messages).flatten(1)

    class GAT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GraphAttention(inside, width, heads), GraphAttention(heads * width, 7, 1)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.second(F.elu(self.first(x, edges[0], edges[1])), edges[0], edges[1])

    model = GAT()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        nodes = 64 * count
        return (rng.standard_normal((nodes, inside), np.float32), rng.integers(0, nodes, (2, degree * nodes)),
                rng.integers(0, 7, nodes))  # fmt: skip

    return Network(library, model, sample, lambda x, e, y: F.cross_entropy(model(x, e), y), lambda x, e, y: model(x, e), batch,
                   ("Adam", {"lr": 5e-3}))  # fmt: skip


def dlrm(library: Any, size: int) -> Network:
    """Bags of embeddings and numbers, their products in pairs, and an MLP (Naumov et al., 2019)."""
    nn, F = library.nn, library.nn.functional
    kinds, width, numbers, words, batch = (([100, 1000, 50], 16, 8, 4, 128), ([5000, 20_000, 300] * 3, 32, 13, 8, 256))[
        size
    ]

    class DLRM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in kinds)
            self.bottom = nn.Sequential(nn.Linear(numbers, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
            count = len(kinds) + 1
            self.top = nn.Sequential(nn.Linear(width + count * (count - 1) // 2, 128), nn.ReLU(), nn.Linear(128, 1))
            self.register_buffer("pairs", library.tril_indices(count, count, -1))

        def forward(self, x: Any, indices: Any) -> Any:
            dense = self.bottom(x)
            parts = library.stack([dense, *[bag(indices[k]) for k, bag in enumerate(self.bags)]], 1)
            products = library.bmm(parts, parts.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(library.cat([dense, products], 1)).squeeze(1)

    model = DLRM()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return (rng.standard_normal((count, numbers), np.float32),
                np.stack([rng.integers(0, n, (count, words)) for n in kinds]), rng.random(count, np.float32))  # fmt: skip

    return Network(library, model, sample, lambda x, i, y: F.binary_cross_entropy_with_logits(model(x, i), y),
                   lambda x, i, y: model(x, i), batch, ("SGD", {"lr": 0.01}))  # fmt: skip


def mixture_of_experts(library: Any, size: int) -> Network:
    """Each token goes to the two best of several MLPs (Shazeer et al., 2017)."""
    nn = library.nn
    width, count, length, batch, classes = ((64, 4, 16, 8, 10), (256, 8, 32, 16, 100))[size]

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, count, bias=False)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(count)
            )

        def forward(self, x: Any) -> Any:
            tokens = self.norm(x).reshape(-1, width)
            best, chosen = self.gate(tokens).softmax(1).topk(2, 1)
            best = best / best.sum(1, keepdim=True)
            out = library.zeros_like(tokens)
            for k, expert in enumerate(self.experts):
                rows, place = (chosen == k).nonzero(as_tuple=True)
                out = out.index_add(0, rows, expert(tokens[rows]) * best[rows, place].unsqueeze(1))
            return x + out.view(x.shape)

    model = nn.Sequential(nn.Linear(32, width), Experts(), Experts(), nn.LayerNorm(width), nn.Flatten(),
                          nn.Linear(length * width, classes))  # fmt: skip
    return classifier(library, model, (length, 32), classes, batch, "Adam", 1e-4)


def pointnet(library: Any, size: int) -> Network:
    """The class of a set of points: the same layers for each, and the maximum over all (Qi et al., 2017)."""
    nn = library.nn
    widths, points, batch = (((32, 64, 128), 128, 8), ((64, 128, 512), 512, 16))[size]

    class PointNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [
                layer
                for a, b in itertools.pairwise((3, *widths))
                for layer in conv_bn(nn, a, b, 1, act=nn.ReLU, dims=1)
            ]
            self.points, last = nn.Sequential(*layers), widths[-1]
            self.head = nn.Sequential(
                nn.Linear(last, last // 2), nn.BatchNorm1d(last // 2), nn.ReLU(), nn.Linear(last // 2, 40)
            )

        def forward(self, x: Any) -> Any:
            return self.head(self.points(x).max(2).values)

    return classifier(library, PointNet(), (3, points), 40, batch, "Adam", 1e-3)


def audio_resnet(library: Any, size: int) -> Network:
    """Residual blocks over samples of audio after a wide strided convolution (Dai et al., 2017)."""
    nn = library.nn
    Residual = residual(nn)
    width, length, batch = ((16, 2000, 8), (48, 8000, 8))[size]
    layers, inside = [nn.Conv1d(1, width, 80, 4, 38), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(4)], width
    for outside in (width, 2 * width, 4 * width):
        body = nn.Sequential(
            *conv_bn(nn, inside, outside, 3, 1, act=nn.ReLU, dims=1), *conv_bn(nn, outside, outside, 3, dims=1)
        )
        shortcut = None if inside == outside else nn.Conv1d(inside, outside, 1)
        layers += [Residual(body, shortcut, nn.ReLU()), nn.MaxPool1d(4)]
        inside = outside
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(inside, 35))
    return classifier(library, model, (1, length), 35, batch, "Adam", 1e-3)


def unet_1d(library: Any, size: int) -> Network:
    """Signals to signals: down by strided convolutions and up by transposed ones, with skips (Stoller et al., 2018)."""
    nn, F = library.nn, library.nn.functional
    widths, length, batch = (((12, 24, 48), 512, 8), ((24, 48, 96, 192), 2048, 8))[size]

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            ends = list(itertools.pairwise((1, *widths)))
            self.down = nn.ModuleList(nn.Sequential(nn.Conv1d(a, b, 15, 2, 7), nn.LeakyReLU(0.2)) for a, b in ends)
            self.up = nn.ModuleList(
                nn.ConvTranspose1d(b if k == 0 else 2 * b, a, 4, 2, 1) for k, (a, b) in enumerate(reversed(ends))
            )

        def forward(self, x: Any) -> Any:
            skips = []
            for layer in self.down:
                x = layer(x)
                skips.append(x)
            x = skips.pop()
            for k, layer in enumerate(self.up):
                x = layer(x if k == 0 else library.cat([F.leaky_relu(x, 0.2), skips.pop()], 1))
            return x.tanh()

    model = UNet()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return tuple(rng.standard_normal((count, 1, length), np.float32) for _ in range(2))

    return Network(library, model, sample, lambda x, y: F.l1_loss(model(x), y), lambda x, y: model(x), batch,
                   ("Adam", {"lr": 1e-3}))  # fmt: skip


def capsules(library: Any, size: int) -> Network:
    """Vectors of features, routed to those of classes by agreement (Sabour et al., 2017)."""
    nn, F = library.nn, library.nn.functional
    channels, groups, batch = ((16, 4, 8), (64, 16, 16))[size]

    def squash(x: Any) -> Any:
        square = (x * x).sum(-1, keepdim=True)
        return x * (square / (1 + square) / (square + 1e-8).sqrt())

    class Capsules(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, channels, 9, 2), nn.Conv2d(channels, 8 * groups, 5, 2)
            self.weight = nn.Parameter(0.05 * library.randn(9 * groups, 10, 16, 8))

        def forward(self, x: Any) -> Any:
            y = self.second(F.relu(self.first(x)))
            y = squash(y.view(len(y), groups, 8, -1).transpose(2, 3).reshape(len(y), -1, 8))
            votes = library.einsum("ncij,bnj->bnci", self.weight, y)
            logits = library.zeros(votes.shape[:3])
            for _ in range(2):
                out = squash((logits.softmax(2).unsqueeze(3) * votes).sum(1))
                logits = logits + (votes * out.unsqueeze(1)).sum(-1)
            return squash((logits.softmax(2).unsqueeze(3) * votes).sum(1)).norm(dim=-1)

    return classifier(library, Capsules(), (1, 28, 28), 10, batch, "Adam", 1e-3)


def flow(library: Any, size: int) -> Network:
    """A density by affine couplings (Dinh et al., 2017)."""
    nn = library.nn
    features, width, depth, batch = ((8, 64, 4, 128), (64, 256, 8, 256))[size]

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            half = features // 2
            self.nets = nn.ModuleList(
                nn.Sequential(
                    nn.Linear(half, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, features)
                )
                for _ in range(depth)
            )

        def forward(self, x: Any) -> Any:
            total = library.zeros(len(x))
            for net in self.nets:
                a, b = x.chunk(2, 1)
                scale, shift = net(a).chunk(2, 1)
                scale = scale.tanh()
                x, total = library.cat([b * scale.exp() + shift, a], 1), total + scale.sum(1)
            return total - 0.5 * (x * x).sum(1) - 0.5 * features * math.log(2 * math.pi)

    model = Flow()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return (rng.standard_normal((count, features), np.float32),)

    return Network(
        library, model, sample, lambda x: -model(x).mean(), lambda x: model(x), batch, ("Adam", {"lr": 1e-3})
    )


def attentive_decoder(library: Any, size: int) -> Network:
    """Sequence to sequence by a GRU and the cells of a decoder that looks back at its states (Bahdanau et al., 2015)."""
    nn, F = library.nn, library.nn.functional
    width, length, batch, tokens = ((64, 12, 16, 500), (256, 16, 16, 2000))[size]

    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(tokens, width), nn.Embedding(tokens, width)
            self.encoder, self.cell = nn.GRU(width, width, batch_first=True), nn.GRUCell(2 * width, width)
            self.keys, self.query, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
            self.head = nn.Linear(2 * width, tokens)

        def forward(self, source: Any, target: Any) -> Any:
            states, last = self.encoder(self.source(source))
            keys, h, outs, words = self.keys(states), last[0], [], self.target(target)
            for t in range(target.shape[1]):
                weights = self.score((keys + self.query(h).unsqueeze(1)).tanh()).softmax(1)
                context = (weights * states).sum(1)
                h = self.cell(library.cat([words[:, t], context], 1), h)
                outs.append(library.cat([h, context], 1))
            return self.head(library.stack(outs, 1))

    model = Translator()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return tuple(rng.integers(0, tokens, (count, length)) for _ in range(3))

    def loss(source: Any, target: Any, following: Any) -> Any:
        return F.cross_entropy(model(source, target).flatten(0, 1), following.flatten())

    return Network(library, model, sample, loss, lambda a, b, c: model(a, b), batch, ("Adam", {"lr": 1e-3}))


def actor_critic(library: Any, size: int) -> Network:
    """The clipped loss of a policy and its value (Schulman et al., 2017), with an entropy bonus."""
    nn = library.nn
    states, actions, width, batch = ((8, 4, 64, 128), (64, 18, 256, 512))[size]

    class ActorCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(states, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
            self.policy, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            return library.distributions.Categorical(logits=self.policy(y)), self.value(y).squeeze(1)

    model = ActorCritic()

    def loss(state: Any, action: Any, before: Any, gain: Any) -> Any:
        policy, value = model(state)
        ratio = (policy.log_prob(action) - before).exp()
        better = library.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return -better.mean() + 0.5 * (value - gain).pow(2).mean() - 0.01 * policy.entropy().mean()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return (rng.standard_normal((count, states), np.float32), rng.integers(0, actions, count),
                np.log(rng.random(count, np.float32)), rng.standard_normal(count, np.float32))  # fmt: skip

    return Network(
        library, model, sample, loss, lambda state, *_: model(state)[0].logits, batch, ("Adam", {"lr": 3e-4})
    )

"""Networks that make images, find objects in them, and those whose loss holds derivatives or solutions of equations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from benchmarks.families._network import Network, conv_bn, residual

Arrays = tuple[np.ndarray, ...]


def diffusion(library: Any, size: int) -> Network:
    """The noise in an image at a time, by a U-Net with group norms and attention (Ho et al., 2020)."""
    nn, F = library.nn, library.nn.functional
    width, side, batch = ((16, 16, 4), (64, 32, 4))[size]

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int):
            super().__init__()
            self.first = nn.Sequential(nn.GroupNorm(8, inside), nn.SiLU(), nn.Conv2d(inside, outside, 3, padding=1))
            self.time = nn.Linear(4 * width, outside)
            self.second = nn.Sequential(nn.GroupNorm(8, outside), nn.SiLU(), nn.Conv2d(outside, outside, 3, padding=1))
            self.short = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

        def forward(self, x: Any, time: Any) -> Any:
            return self.short(x) + self.second(self.first(x) + self.time(F.silu(time))[:, :, None, None])

    class Attention(nn.Module):
        def __init__(self, channels: int):
            super().__init__()
            self.norm, self.qkv, self.out = (
                nn.GroupNorm(8, channels),
                nn.Conv2d(channels, 3 * channels, 1),
                nn.Conv2d(channels, channels, 1),
            )

        def forward(self, x: Any) -> Any:
            n, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).flatten(2).chunk(3, 1)
            weights = library.softmax(library.bmm(q.transpose(1, 2), k) / math.sqrt(c), -1)
            return x + self.out(library.bmm(v, weights.transpose(1, 2)).view(n, c, h, w))

    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
            self.start = nn.Conv2d(3, width, 3, padding=1)
            self.down1, self.half1 = Block(width, width), nn.Conv2d(width, width, 3, 2, 1)
            self.down2, self.half2 = Block(width, 2 * width), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
            self.middle1, self.attention, self.middle2 = (
                Block(2 * width, 2 * width),
                Attention(2 * width),
                Block(2 * width, 2 * width),
            )
            self.up2, self.up1 = Block(4 * width, width), Block(2 * width, width)
            self.out = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

        def forward(self, x: Any, time: Any) -> Any:
            rates = (-math.log(1e4) * library.arange(width // 2) / (width // 2)).exp()
            angles = time[:, None] * rates
            t = self.time(library.cat([angles.sin(), angles.cos()], 1))
            a = self.down1(self.start(x), t)
            b = self.down2(self.half1(a), t)
            y = self.middle2(self.attention(self.middle1(self.half2(b), t)), t)
            y = self.up2(library.cat([F.interpolate(y, scale_factor=2.0, mode="nearest"), b], 1), t)
            return self.out(self.up1(library.cat([F.interpolate(y, scale_factor=2.0, mode="nearest"), a], 1), t))

    model = Denoiser()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        shape = (count, 3, side, side)
        return (
            rng.standard_normal(shape, np.float32),
            rng.standard_normal(shape, np.float32),
            rng.random(count, np.float32),
        )

    def noisy(x: Any, noise: Any, time: Any) -> Any:
        signal = (1 - time).view(-1, 1, 1, 1)
        return model(signal.sqrt() * x + (1 - signal).sqrt() * noise, 1000 * time)

    return Network(
        library, model, sample, lambda x, n, t: F.mse_loss(noisy(x, n, t), n), noisy, batch, ("Adam", {"lr": 2e-4})
    )


def vq_vae(library: Any, size: int) -> Network:
    """Images as codes of a table, with gradients that skip the choice (van den Oord et al., 2017)."""
    nn, F = library.nn, library.nn.functional
    width, codes, side, batch = ((16, 32, 16, 8), (64, 256, 32, 16))[size]

    def block() -> Any:
        layers = [nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 1)]
        return residual(nn)(nn.Sequential(*layers))

    class VQVAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1), block(), block()
            )
            self.codes = nn.Embedding(codes, width)
            self.decoder = nn.Sequential(block(), block(), nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(),
                                         nn.ConvTranspose2d(width, 3, 4, 2, 1))  # fmt: skip

        def forward(self, x: Any) -> Any:
            z = self.encoder(x).permute(0, 2, 3, 1)
            flat = z.reshape(-1, width)
            chosen = self.codes(library.cdist(flat, self.codes.weight).argmin(1)).view(z.shape)
            extra = F.mse_loss(chosen, z.detach()) + 0.25 * F.mse_loss(z, chosen.detach())
            straight = z + (chosen - z).detach()
            return self.decoder(straight.permute(0, 3, 1, 2)), extra

    model = VQVAE()

    def loss(x: Any) -> Any:
        y, extra = model(x)
        return F.mse_loss(y, x) + extra

    return Network(library, model, lambda rng, count: (rng.random((count, 3, side, side), np.float32),), loss,
                   lambda x: model(x)[0], batch, ("Adam", {"lr": 3e-4}))  # fmt: skip


def super_resolution(library: Any, size: int) -> Network:
    """Residual blocks without norms, then channels become pixels (Lim et al., 2017)."""
    nn, F = library.nn, library.nn.functional
    width, depth, side, batch = ((16, 3, 16, 4), (64, 6, 32, 4))[size]

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
            )

        def forward(self, x: Any) -> Any:
            return x + 0.1 * self.body(x)

    blocks = [Scaled() for _ in range(depth)]
    model = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), *blocks, nn.Conv2d(width, 4 * width, 3, padding=1),
                          nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1))  # fmt: skip

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return rng.random((count, 3, side, side), np.float32), rng.random((count, 3, 2 * side, 2 * side), np.float32)

    return Network(
        library,
        model,
        sample,
        lambda x, y: F.l1_loss(model(x), y),
        lambda x, y: model(x),
        batch,
        ("Adam", {"lr": 1e-4}),
    )


def detector(library: Any, size: int) -> Network:
    """Boxes and classes for each cell of a pyramid, under a focal loss (Lin et al., 2017)."""
    nn, F = library.nn, library.nn.functional
    width, side, classes, batch = ((16, 32, 4, 4), (64, 96, 20, 2))[size]

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (width // 2, width, 2 * width, 4 * width)
            self.start = nn.Sequential(*conv_bn(nn, 3, widths[0], 3, 2, act=nn.ReLU))
            self.stages = nn.ModuleList(
                nn.Sequential(*conv_bn(nn, a, b, 3, 2, act=nn.ReLU), *conv_bn(nn, b, b, 3, act=nn.ReLU))
                for a, b in itertools.pairwise(widths)
            )
            self.lateral = nn.ModuleList(nn.Conv2d(n, width, 1) for n in widths[1:])
            self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in widths[1:])
            self.classes, self.boxes = (
                nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, n, 3, padding=1))
                for n in (classes, 4)
            )

        def forward(self, x: Any) -> Any:
            x, found, levels = self.start(x), [], []
            for stage in self.stages:
                x = stage(x)
                found.append(x)
            top = None
            for x, lateral, smooth in zip(found[::-1], list(self.lateral)[::-1], self.smooth, strict=True):
                y = lateral(x)
                top = y if top is None else y + F.interpolate(top, size=y.shape[-2:], mode="nearest")
                levels.append(smooth(top))
            both = [library.cat([self.classes(y), self.boxes(y)], 1).flatten(2) for y in levels]
            return library.cat(both, 2).transpose(1, 2)

    model, cells = Detector(), sum((side // n) ** 2 for n in (4, 8, 16))

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        objects = (rng.random((count, cells, classes)) < 0.02).astype(np.float32)
        return (
            rng.random((count, 3, side, side), np.float32),
            objects,
            rng.standard_normal((count, cells, 4), np.float32),
        )

    def loss(x: Any, objects: Any, boxes: Any) -> Any:
        scores, found = model(x).split([classes, 4], 2)
        each = F.binary_cross_entropy_with_logits(scores, objects, reduction="none")
        p = scores.sigmoid()
        wrong = p * (1 - objects) + (1 - p) * objects
        focal = ((0.25 * objects + 0.75 * (1 - objects)) * wrong**2 * each).sum()
        is_object = objects.amax(2, keepdim=True)
        return (focal + (F.smooth_l1_loss(found, boxes, reduction="none") * is_object).sum()) / is_object.sum().clamp(
            min=1
        )

    return Network(
        library, model, sample, loss, lambda x, o, b: model(x), batch, ("SGD", {"lr": 1e-3, "momentum": 0.9})
    )


def wasserstein_critic(library: Any, size: int) -> Network:
    """A critic of images whose gradient's norm is held near 1 (Gulrajani et al., 2017)."""
    nn, F = library.nn, library.nn.functional
    width, side, batch = ((8, 16, 8), (64, 32, 16))[size]
    layers = [layer for a, b in ((3, width), (width, 2 * width), (2 * width, 4 * width))
              for layer in (nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2))]  # fmt: skip
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width * (side // 8) ** 2, 1))

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        shape = (count, 3, side, side)
        return rng.random(shape, np.float32), rng.random(shape, np.float32), rng.random((count, 1, 1, 1), np.float32)

    def loss(real: Any, fake: Any, share: Any) -> Any:
        between = (share * real + (1 - share) * fake).requires_grad_()
        (slope,) = library.autograd.grad(model(between).sum(), between, create_graph=True)
        return (
            F.relu(1 - model(real)).mean()
            + F.relu(1 + model(fake)).mean()
            + 10 * ((slope.flatten(1).norm(2, 1) - 1) ** 2).mean()
        )

    return Network(library, model, sample, loss, lambda r, m, s: model(r), batch, ("Adam", {"lr": 1e-4}))


def radiance_field(library: Any, size: int) -> Network:
    """The colours of rays through a scene that an MLP holds (Mildenhall et al., 2020)."""
    nn, F = library.nn, library.nn.functional
    width, octaves, points, rays = ((32, 4, 16, 16), (128, 10, 32, 64))[size]

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inside = 3 + 6 * octaves
            self.register_buffer("rates", 2.0 ** library.arange(octaves).float())
            self.first = nn.Sequential(nn.Linear(inside, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
            self.second = nn.Sequential(nn.Linear(inside + width, width), nn.ReLU(), nn.Linear(width, 4))

        def forward(self, origins: Any, directions: Any, depths: Any) -> Any:
            places = origins[:, None] + directions[:, None] * depths[..., None]
            angles = (places[..., None] * self.rates).flatten(-2)
            code = library.cat([places, angles.sin(), angles.cos()], -1)
            y = self.second(library.cat([self.first(code), code], -1))
            density, colour = F.relu(y[..., 0]), y[..., 1:].sigmoid()
            gaps = library.cat([depths[:, 1:] - depths[:, :-1], library.full_like(depths[:, :1], 1e3)], 1)
            opaque = 1 - (-density * gaps).exp()
            clear = library.cumprod(library.cat([library.ones_like(opaque[:, :1]), 1 - opaque + 1e-10], 1), 1)[:, :-1]
            return ((opaque * clear)[..., None] * colour).sum(1)

    model = Field()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        n = rays * count
        depths = np.sort(rng.uniform(2, 6, (n, points)).astype(np.float32), 1)
        return (
            rng.standard_normal((n, 3), np.float32),
            rng.standard_normal((n, 3), np.float32),
            depths,
            rng.random((n, 3), np.float32),
        )

    return Network(library, model, sample, lambda o, d, t, y: F.mse_loss(model(o, d, t), y), lambda o, d, t, y: model(o, d, t), 4,
                   ("Adam", {"lr": 5e-4}))  # fmt: skip


def physics(library: Any, size: int) -> Network:
    """A solution of Burgers' equation as a network, by its derivatives (Raissi et al., 2019)."""
    nn = library.nn
    width, depth, batch = ((20, 3, 100), (64, 6, 1000))[size]
    layers = [layer for k in range(depth) for layer in (nn.Linear(width if k else 2, width), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(width, 1))

    def derivatives(y: Any, x: Any) -> Any:
        return library.autograd.grad(y, x, library.ones_like(y), create_graph=True)[0]

    def loss(x: Any, edge: Any, value: Any) -> Any:
        x = x.detach().requires_grad_()
        u = model(x)
        first = derivatives(u, x)
        second = derivatives(first[:, :1], x)[:, :1]
        return ((first[:, 1:] + u * first[:, :1] - 0.01 / math.pi * second) ** 2).mean() + (
            (model(edge) - value) ** 2
        ).mean()

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        edge = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
        return rng.uniform(-1, 1, (count, 2)).astype(np.float32), edge, -np.sin(np.pi * edge[:, :1])

    return Network(library, model, sample, loss, lambda x, e, v: model(x), batch, ("Adam", {"lr": 1e-3}))


def differential_equation(library: Any, size: int) -> Network:
    """A path whose slope is a network, by Runge and Kutta's method (Chen et al., 2018)."""
    nn, F = library.nn, library.nn.functional
    width, steps, batch = ((16, 5, 32), (128, 20, 128))[size]
    slope = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))

    def path(x: Any) -> Any:
        h, found = 1 / steps, [x]
        for _ in range(steps):
            a = slope(x)
            b = slope(x + h / 2 * a)
            c = slope(x + h / 2 * b)
            d = slope(x + h * c)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
            found.append(x)
        return library.stack(found)

    def sample(rng: np.random.Generator, count: int) -> Arrays:
        return rng.standard_normal((count, 2), np.float32), rng.standard_normal((steps + 1, count, 2), np.float32)

    return Network(
        library,
        slope,
        sample,
        lambda x, y: F.mse_loss(path(x), y),
        lambda x, y: path(x),
        batch,
        ("RMSprop", {"lr": 1e-3}),
    )

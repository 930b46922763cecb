"""Networks whose outputs are images or signals, and convolutions in one and three dimensions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.families._network import Network, classifier, conv_bn, residual


def unet(library: Any, size: int) -> Network:
    """Down by max pooling, up by transposed convolutions, with skips; a class for each pixel (Ronneberger et al., 2015)."""
    nn, cat = library.nn, library.cat
    side, batch, widths = ((32, 8, (16, 32, 64)), (64, 4, (32, 64, 128, 256)))[size]

    def double(inside: int, outside: int) -> Any:
        return nn.Sequential(
            *conv_bn(nn, inside, outside, 3, act=nn.ReLU), *conv_bn(nn, outside, outside, 3, act=nn.ReLU)
        )

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(itertools.pairwise(widths))
            self.first, self.pool = double(3, widths[0]), nn.MaxPool2d(2)
            self.down = nn.ModuleList(double(a, b) for a, b in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
            self.join = nn.ModuleList(double(2 * a, a) for a, _ in reversed(pairs))
            self.head = nn.Conv2d(widths[0], 5, 1)

        def forward(self, x: Any) -> Any:
            skips = [self.first(x)]
            for block in self.down:
                skips.append(block(self.pool(skips[-1])))
            x = skips.pop()
            for up, join in zip(self.up, self.join, strict=True):
                x = join(cat([skips.pop(), up(x)], 1))
            return self.head(x)

    model = UNet()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return rng.standard_normal((count, 3, side, side), np.float32), rng.integers(0, 5, (count, side, side))

    return Network(library, model, sample, lambda x, y: nn.functional.cross_entropy(model(x), y), lambda x, y: model(x),
                   batch, ("Adam", {"lr": 1e-3}))  # fmt: skip


def vae(library: Any, size: int) -> Network:
    """A variational autoencoder of strided and transposed convolutions (Kingma and Welling, 2014)."""
    nn, F = library.nn, library.nn.functional
    side, batch, (a, b), latent = ((28, 64, (16, 32), 20), (32, 64, (32, 64), 128))[size]
    inner = side // 4

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(1, a, 3, 2, 1), nn.ReLU(), nn.Conv2d(a, b, 3, 2, 1), nn.ReLU(), nn.Flatten(),
                nn.Linear(b * inner * inner, 2 * latent),
            )  # fmt: skip
            self.decoder = nn.Sequential(
                nn.Linear(latent, b * inner * inner), nn.ReLU(), nn.Unflatten(1, (b, inner, inner)),
                nn.ConvTranspose2d(b, a, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(a, 1, 4, 2, 1),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            mean, log_variance = self.encoder(x).chunk(2, 1)
            z = mean + library.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
            return self.decoder(z), mean, log_variance

    model = VAE()

    def loss(x: Any) -> Any:
        y, mean, log_variance = model(x)
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return (F.binary_cross_entropy_with_logits(y, x, reduction="sum") + divergence) / x.shape[0]

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return (rng.random((count, 1, side, side), np.float32),)

    return Network(library, model, sample, loss, lambda x: model(x)[0], batch, ("Adam", {"lr": 1e-3}))


def dcgan(library: Any, size: int) -> Network:
    """A step of the discriminator, then of the generator (Radford et al., 2016)."""
    nn, F = library.nn, library.nn.functional
    batch, width, latent = ((16, 16, 64), (16, 48, 100))[size]
    generator = nn.Sequential(
        nn.ConvTranspose2d(latent, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
        nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
        nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, True),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), nn.LeakyReLU(0.2, True),
        nn.Conv2d(4 * width, 1, 4, bias=False), nn.Flatten(),
    )  # fmt: skip
    optimizers = [library.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999)) for net in (discriminator, generator)]

    def loss(logits: Any, real: bool) -> Any:
        return F.binary_cross_entropy_with_logits(logits, library.full_like(logits, float(real)))

    def step(x: Any, z: Any) -> Any:
        optimizers[0].zero_grad()
        fake = generator(z)
        first = loss(discriminator(x), True) + loss(discriminator(fake.detach()), False)
        first.backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        second = loss(discriminator(fake), True)
        second.backward()
        optimizers[1].step()
        return first.detach() + second.detach()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return rng.random((count, 3, 32, 32), np.float32), rng.standard_normal((count, latent, 1, 1), np.float32)

    return Network(library, nn.ModuleList([generator, discriminator]), sample, lambda x, z: loss(discriminator(x), True),
                   lambda x, z: generator(z), batch, step=step)  # fmt: skip


def resnet_3d(library: Any, size: int) -> Network:
    """Residual blocks of 3×3×3 convolutions on clips of video (Tran et al., 2018)."""
    nn = library.nn
    Residual = residual(nn)
    frames, side, batch, widths = ((8, 16, 4, (16, 32)), (8, 32, 4, (32, 64, 128)))[size]
    layers, inside = (
        [nn.Conv3d(3, widths[0], (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(widths[0]), nn.ReLU()],
        widths[0],
    )
    for width in widths:
        stride = 1 if width == inside else 2
        body = nn.Sequential(
            *conv_bn(nn, inside, width, 3, stride, act=nn.ReLU, dims=3), *conv_bn(nn, width, width, 3, dims=3)
        )
        shortcut = None if stride == 1 else nn.Sequential(*conv_bn(nn, inside, width, 1, stride, dims=3))
        layers.append(Residual(body, shortcut, nn.ReLU()))
        inside = width
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(inside, 20)]
    return classifier(library, nn.Sequential(*layers), (3, frames, side, side), 20, batch)


def wavenet(library: Any, size: int) -> Network:
    """Dilated causal 1-d convolutions with gates, residuals and skips (van den Oord et al., 2016)."""
    nn, F = library.nn, library.nn.functional
    width, depth, length, batch, classes = ((32, 6, 256, 4, 64), (64, 8, 512, 4, 256))[size]

    class Layer(nn.Module):
        def __init__(self, dilation: int):
            super().__init__()
            self.dilated = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
            self.out, self.padding = nn.Conv1d(width, 2 * width, 1), dilation

        def forward(self, x: Any) -> Any:
            a, b = self.dilated(F.pad(x, (self.padding, 0))).chunk(2, 1)
            more, skip = self.out(library.tanh(a) * library.sigmoid(b)).chunk(2, 1)
            return x + more, skip

    class WaveNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, width, 1)
            self.layers = nn.ModuleList(Layer(2**n) for n in range(depth))
            self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, classes, 1))

        def forward(self, x: Any) -> Any:
            x, total = self.first(x), 0
            for layer in self.layers:
                x, skip = layer(x)
                total = total + skip
            return self.head(total)

    model = WaveNet()

    def sample(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
        return rng.standard_normal((count, 1, length), np.float32), rng.integers(0, classes, (count, length))

    return Network(library, model, sample, lambda x, y: F.cross_entropy(model(x), y), lambda x, y: model(x), batch,
                   ("Adam", {"lr": 1e-3}))  # fmt: skip


def tcn(library: Any, size: int) -> Network:
    """Residual blocks of dilated 1-d convolutions with dropout, for classes of signals (Bai et al., 2018)."""
    nn = library.nn
    Residual = residual(nn)
    width, depth, length, batch = ((32, 3, 256, 16), (128, 4, 256, 16))[size]
    layers: list[Any] = []
    inside = 6
    for n in range(depth):
        how = {"padding": "same", "dilation": 2**n}
        body = nn.Sequential(
            nn.Conv1d(inside, width, 3, **how), nn.ReLU(), nn.Dropout(0.2), nn.Conv1d(width, width, 3, **how), nn.ReLU(),
            nn.Dropout(0.2),
        )  # fmt: skip
        layers.append(Residual(body, nn.Conv1d(inside, width, 1) if inside != width else None, nn.ReLU()))
        inside = width
    layers += [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 12)]
    return classifier(library, nn.Sequential(*layers), (6, length), 12, batch, "Adam", 1e-3)

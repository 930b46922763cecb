"""The same script with the same seed gives PyTorch's loss curve: digits by an MLP and by a CNN with dropout."""

import numpy as np
import pytest

import tdt
from tdt.vision.datasets import Digits
from tests.nn._compare import torch

EPOCHS, BATCH = 5, 64


def data(lib):
    digits = Digits(split="train")
    images = np.stack([np.asarray(digits[i][0], dtype="float32") for i in range(len(digits))]).reshape(-1, 1, 8, 8)
    images = images / images.max() * 2 - 1
    labels = np.array([int(digits[i][1]) for i in range(len(digits))])
    return lib.from_numpy(images), lib.from_numpy(labels)


def mlp(nn):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))


def cnn(nn):
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16),
                         nn.ReLU(), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))  # fmt: skip


def curve(lib, model, optimizer, last=False):
    """Mean loss of every epoch."""
    lib.manual_seed(0)
    net = model(lib.nn)
    x, y = data(lib)
    if last:
        net, x = net.to(memory_format=lib.channels_last), x.to(memory_format=lib.channels_last)
    steps, loss_of, losses = optimizer(lib, net.parameters()), lib.nn.CrossEntropyLoss(), []
    for _ in range(EPOCHS):
        order, total = lib.randperm(len(y)), 0.0
        for start in range(0, len(y), BATCH):
            at = order[start : start + BATCH]
            steps.zero_grad()
            loss = loss_of(net(x[at]), y[at])
            loss.backward()
            steps.step()
            total += loss.item() * len(at)
        losses.append(total / len(y))
    return np.array(losses)


def sgd(lib, parameters):
    return lib.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adam(lib, parameters):
    return lib.optim.Adam(parameters, lr=1e-3)


CASES = {
    "mlp-sgd": (mlp, sgd, False),
    "mlp-adam": (mlp, adam, False),
    "cnn": (cnn, sgd, False),
    "cnn-channels_last": (cnn, sgd, True),
}


@pytest.mark.parametrize("name", CASES)
def test_the_loss_curve_is_pytorchs(name):
    ours, theirs = (curve(lib, *CASES[name]) for lib in (tdt, torch))
    assert ours[-1] < ours[0] / 3, "it learns"
    assert (np.abs(ours - theirs) / theirs).max() < 1e-6, np.abs(ours - theirs) / theirs

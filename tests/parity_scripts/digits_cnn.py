"""What configs/digits-cnn.yaml says, in PyTorch: `python -m tests.parity_scripts.digits_cnn [EPOCHS] [SEED]`."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from tests.parity_scripts import _data, _loop


def main(epochs: int = 10, seed: int = 0, lr: float = 5e-2, init: bool = True) -> dict[str, Any]:
    """Train; returns what `_loop.fit` does. init=False keeps the layers' own initialisation."""
    torch.manual_seed(seed)
    features = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 32, 3, padding=1),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 3, padding=1),
            relu2=nn.ReLU(),
            pool=nn.MaxPool2d(2),
        )
    )
    last = nn.Linear(128, 10)
    hidden = nn.Linear(64 * 4 * 4, 128)  # drawn last: in the config it is lazy
    classifier = nn.Sequential(hidden, nn.ReLU(), nn.Dropout(0.2), last)
    model = nn.Sequential(OrderedDict(features=features, flatten=nn.Flatten(), classifier=classifier))
    if init:
        for conv in (features.conv1, features.conv2):
            nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
    loaders = _data.load(batch_size=32, seed=seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    torch.manual_seed(seed)
    return _loop.fit(model, loaders, nn.CrossEntropyLoss(), optimizer, epochs, scheduler)


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))

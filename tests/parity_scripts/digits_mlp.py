"""What configs/digits-mlp.yaml says, in PyTorch: `python -m tests.parity_scripts.digits_mlp [EPOCHS] [SEED]`."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import nn

from tests.parity_scripts import _data, _loop


def main(epochs: int = 20, seed: int = 0) -> dict[str, Any]:
    """Train; returns what `_loop.fit` does."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    loaders = _data.load(batch_size=64, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(seed)
    return _loop.fit(model, loaders, nn.CrossEntropyLoss(), optimizer, epochs)


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))

"""The digits for the PyTorch scripts, straight from the file that tdt bundles; tdt itself is not imported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

FILE = Path(__file__).parents[2] / "tdt" / "vision" / "datasets" / "data" / "digits.npz"


def load(batch_size: int, seed: int) -> dict[str, DataLoader]:
    """A loader for each split; the training one shuffles from a generator of its own."""
    stored = np.load(FILE)
    loaders = {}
    for number, split in enumerate(("train", "valid", "test")):
        chosen = stored["split"] == number
        images = torch.from_numpy(stored["images"][chosen]).float().div(16).unsqueeze(1)
        data = TensorDataset((images - 0.5) / 0.5, torch.from_numpy(stored["labels"][chosen].astype(np.int64)))
        order = {"shuffle": True, "generator": torch.Generator().manual_seed(seed)} if split == "train" else {}
        loaders[split] = DataLoader(data, batch_size=batch_size, **order)
    return loaders

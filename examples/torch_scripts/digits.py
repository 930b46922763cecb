"""The 8×8 digits as tensors, for the other scripts in this folder."""

from pathlib import Path

import numpy as np
import torch

FILE = Path(__file__).resolve().parents[2] / "tdt" / "vision" / "datasets" / "data" / "digits.npz"


def load(limit=None):
    """Images (n, 1, 8, 8) between 0 and 1, and labels (n,)."""
    stored = np.load(FILE)
    images = torch.from_numpy(stored["images"][:limit]).float().unsqueeze(1) / 16
    labels = torch.from_numpy(stored["labels"][:limit].astype(np.int64))
    return images, labels

"""LeNet-5 (LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition, 1998)."""

from __future__ import annotations

from tdt import Tensor, nn
from tdt.nn import functional as F

__all__ = ["LeNet"]


class LeNet(nn.Module):
    """LeNet-5 for images of 28×28 pixels, with today's ReLU and max-pooling: 61,706 parameters for ten classes.

    Shape: x (N, 1, 28, 28); result (N, num_classes).

    >>> import tdt
    >>> from tdt.vision.models import LeNet
    >>> LeNet()(tdt.zeros(2, 1, 28, 28)).shape
    tdt.Size([2, 10])
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, 28, 28) → (n, num_classes)."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)  # (n, 6, 14, 14)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)  # (n, 16 · 5 · 5)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

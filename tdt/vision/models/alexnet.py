"""AlexNet in its one-tower form (Krizhevsky: One weird trick for parallelizing convolutional neural networks, 2014)."""

from __future__ import annotations

from tdt import Tensor, nn
from tdt.vision.models._api import builder

__all__ = ["AlexNet", "alexnet"]


class AlexNet(nn.Module):
    """AlexNet: five convolutions and three linear layers.

    Shape: x (N, 3, H, W), at least 63 × 63 pixels; result (N, num_classes).
    Source: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014.

    >>> import tdt
    >>> with tdt.device("meta"):
    ...     model = tdt.vision.models.AlexNet(num_classes=10)
    >>> model(tdt.rand(2, 3, 224, 224, device="meta")).shape
    tdt.Size([2, 10])
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        )  # fmt: skip
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True),
            nn.Dropout(dropout), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, num_classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


alexnet = builder(
    "alexnet",
    AlexNet,
    doc="AlexNet: five convolutions and three linear layers.",
    source='Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014',
    file="alexnet-owt-7be5be79.pth",
)

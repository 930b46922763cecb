"""torchinfo: the summaries of small models are PyTorch's, letter by letter."""

from __future__ import annotations

import torch
from torch import nn
from torchinfo import summary
from torchinfo.layer_info import LayerInfo  # noqa: F401  (as programs import it)


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, bias=False),
            nn.Dropout2d(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.body = kind(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.body(self.embedding(x))[0][:, -1])


class Shared(nn.Module):
    """A layer that is used twice, a parameter of its own, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.frozen = nn.Linear(4, 2).requires_grad_(False)
        self.unused = nn.ModuleDict({"a": nn.Linear(2, 2)})

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        x = self.layer(self.layer(x)) * self.scale
        return {"out": self.frozen(x if y is None else x + y)}


COLUMNS = (
    "input_size",
    "output_size",
    "num_params",
    "params_percent",
    "kernel_size",
    "mult_adds",
    "trainable",
)


def text(model: nn.Module, **options) -> dict[str, object]:
    found = summary(model, verbose=0, **options)
    return {
        "text": str(found),
        "numbers": [found.total_params, found.trainable_params, found.total_mult_adds, found.total_output_bytes],
        "layers": [
            [layer.class_name, layer.depth, layer.output_size, layer.num_params] for layer in found.summary_list
        ],
    }


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


CASES = {
    "linear": lambda: text(nn.Linear(3, 2), input_size=(4, 3)),
    "no input": lambda: text(Convolutional()),
    "convolutional": lambda: text(Convolutional(), input_size=(2, 1, 12, 12)),
    "all columns": lambda: text(Convolutional(), input_size=(2, 1, 12, 12), col_names=COLUMNS, depth=2),
    "row settings": lambda: text(Convolutional(), input_size=(2, 1, 12, 12), row_settings=("ascii_only", "var_names")),
    "data": lambda: text(Convolutional(), input_data=torch.zeros(1, 1, 9, 9), mode="train"),
    "lstm": lambda: text(Recurrent(nn.LSTM), input_size=(2, 7), dtypes=[torch.long], col_names=COLUMNS),
    "gru": lambda: text(Recurrent(nn.GRU), input_size=(2, 7), dtypes=[torch.long]),
    "rnn": lambda: text(Recurrent(nn.RNN), input_data=torch.zeros(2, 7, dtype=torch.long)),
    "shared and frozen": lambda: text(Shared(), input_size=(3, 4), col_names=COLUMNS),
    "two inputs": lambda: text(Shared(), input_size=[(3, 4), (3, 4)]),
    "keywords": lambda: text(Shared(), input_data={"x": torch.ones(1, 4), "y": torch.ones(1, 4)}),
    "nested": lambda: text(nn.Sequential(nn.Sequential(Convolutional(), nn.ReLU()), nn.Softmax(1)), input_size=(1, 1, 9, 9)),
    "encoder": lambda: text(encoder().train(), input_size=(2, 5, 8), depth=4, mode="train"),
    "transposed": lambda: text(nn.Sequential(nn.ConvTranspose2d(2, 3, 3, groups=1), nn.Flatten()), input_size=(1, 2, 4, 4)),
    "conv1d and conv3d": lambda: [
        text(nn.Conv1d(2, 4, 3, groups=2), input_size=(1, 2, 9), col_names=COLUMNS),
        text(nn.Conv3d(1, 2, 2), input_size=(1, 1, 4, 4, 4), col_names=COLUMNS),
    ],
    "half": lambda: text(nn.Linear(3, 2).to(torch.float64), input_size=(4, 3), dtypes=[torch.float64]),
    "lists": lambda: text(nn.ModuleList([nn.Linear(2, 2), nn.Conv2d(1, 1, 1)])),
    "resnet-like": lambda: text(nn.Sequential(*[Convolutional() for _ in range(1)]), input_size=(1, 1, 32, 32), depth=5),
    "batch dim": lambda: text(Convolutional(), input_size=(1, 12, 12), batch_dim=0),
    "error": lambda: error(),
}  # fmt: skip


def error() -> list[str]:
    try:
        summary(nn.Linear(3, 2), input_size=(4, 5), verbose=0)
    except RuntimeError as raised:
        return [type(raised).__name__, str(raised).partition("\n")[0]]
    return []

"""Networks whose training steps are counted on a GPU's stand-in and on the null driver."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tdt
from benchmarks import workloads
from tdt import nn
from tdt.nn import functional as F


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.scores = nn.Embedding(65, 16, padding_idx=0), nn.Linear(16, 65)
        self.recurrent = nn.LSTM(16, 16, 2, batch_first=True, dropout=0.1)

    def forward(self, x):
        return self.scores(self.recurrent(self.embedding(x))[0]).reshape(-1, 65)


NUMBERS = np.random.default_rng(0)
MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 10)),
        (4, 8), (4,),
    ),
    "lenet": (lambda: workloads.lenet(tdt), (2, 1, 28, 28), (2,)),
    "resnet20": (lambda: workloads.resnet20(tdt), (2, 3, 32, 32), (2,)),
    "gpt": (lambda: workloads.gpt_model(tdt, 4, 2, 16, 8, 65), 8, (16,)),
    "lstm": (Lstm, 8, (16,)),
}  # fmt: skip

# Launches of a step, as docs/guide/gpu.md lists them.
LAUNCHES = {"mlp": 17, "lenet": 30, "resnet20": 149, "gpt": 118, "lstm": 30}
# In a CUDA graph, where a chain is one launch; memory is cleared and indices are checked in launches of their own.
LAUNCHES_IN_GRAPHS = {"mlp": 20, "lenet": 33, "resnet20": 135, "gpt": 128, "lstm": 37}
LAUNCHES_BY_CUDNN = {"lenet": 33, "resnet20": 167}

RUN = """
data: {train: Digits(split=train), transform: [ToTensor], loader: {batch_size: 64}}
model: ["Conv2d(1, 4, 3)", "BatchNorm2d(4)", ReLU, Dropout, Flatten, "LazyLinear(10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: AdamW(lr=1e-3)
train: {steps: 8, clip_grad_norm: 1.0}
log: {every: 4 steps}
device: cuda
"""  # a config whose steps are counted


def model_and_batch(name: str) -> tuple[nn.Module, tdt.Tensor, tdt.Tensor]:
    """A model on the GPU, with inputs and targets."""
    make, size, targets = MODELS[name]
    with tdt.device("cuda"):
        model = make()
        x = tdt.tensor(NUMBERS.integers(0, 65, (2, size)) if isinstance(size, int) else NUMBERS.normal(size=size))
        x = x if x.dtype == tdt.int64 else x.float()
        y = tdt.tensor(NUMBERS.integers(0, 10, targets))
    return model, x, y


def step_of(name: str, optimizer: str) -> Callable[[], tdt.Tensor]:
    """A training step with clipping, on a batch that is on the GPU; it returns the loss."""
    model, x, y = model_and_batch(name)
    update = getattr(tdt.optim, optimizer)(model.parameters(), lr=1e-3)

    def step() -> tdt.Tensor:
        with tdt.device("cuda"):
            update.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()
        return loss

    return step

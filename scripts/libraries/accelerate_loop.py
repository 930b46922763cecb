"""accelerate: loops with Accelerator.prepare, backward and step on the CPU, with accumulation, clipping and state on disk."""

from __future__ import annotations

import os
import tempfile

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parts(rows: int = 24) -> tuple:
    """Model, optimizer, loader and schedule."""
    set_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = TensorDataset(torch.randn(rows, 4), torch.arange(rows) % 3)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    return model, optimizer, loader, torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)


def accelerator(**options: object) -> Accelerator:
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(cpu=True, **options)


def fitted(epochs: int = 2, **options: object) -> dict[str, object]:
    """Losses, the weights in the end, and what gathering gives."""
    run = accelerator(**options)
    model, optimizer, loader, schedule = run.prepare(*parts())
    losses, norms = [], []
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            with run.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                run.backward(loss)
                if run.sync_gradients:
                    norms.append(float(run.clip_grad_norm_(model.parameters(), 1.0)))
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        gathered = run.gather_for_metrics(model(torch.ones(2, 4)))
    return {
        "losses": losses, "norms": norms, "weights": [p.float() for p in run.unwrap_model(model).parameters()],
        "gathered": gathered, "processes": run.num_processes, "device": str(run.device), "reduced": run.reduce(torch.ones(2)),
    }  # fmt: skip


def resumed() -> list[float]:
    """Losses of an epoch after `save_state` and `load_state`, twice: both go on from the same weights and generators."""
    run = accelerator()
    model, optimizer, loader, schedule = run.prepare(*parts())

    def epoch() -> list[float]:
        losses = []
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            run.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    first = epoch()
    with tempfile.TemporaryDirectory() as folder:
        run.save_state(folder)
        files = sorted(os.listdir(folder))
        after = epoch()
        run.load_state(folder)
        again = epoch()
    return [first, after, again, files]


CASES = {
    "fit": lambda: fitted(),
    "accumulated": lambda: fitted(gradient_accumulation_steps=2),
    "state": lambda: resumed(),
}

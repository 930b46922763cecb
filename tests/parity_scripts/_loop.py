"""The usual loop: epochs of steps, a validation after each, the best weights tested at the end."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch


def fit(model: Any, loaders: Any, loss_fn: Any, optimizer: Any, epochs: int, scheduler: Any = None) -> dict[str, Any]:
    """Train. Returns each epoch's mean training loss, its validation scores, the test's, and the seconds it took."""
    curve, valid, best, state = [], [], -1.0, None
    began = time.perf_counter()
    for _ in range(epochs):
        model.train()
        total = count = hits = 0
        for inputs, targets in loaders["train"]:
            optimizer.zero_grad()
            output = model(inputs)
            loss = loss_fn(output, targets)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(targets)
            hits += (output.argmax(1) == targets).sum().item()
            count += len(targets)
        curve.append(total / count)
        valid.append(score(model, loaders["valid"], loss_fn))
        if scheduler is not None:
            scheduler.step()
        if valid[-1][1] > best:
            best, state = valid[-1][1], copy.deepcopy(model.state_dict())
    seconds = time.perf_counter() - began
    model.load_state_dict(state)
    return {"train": curve, "valid": valid, "test": score(model, loaders["test"], loss_fn), "seconds": seconds}


def score(model: Any, loader: Any, loss_fn: Any) -> tuple[float, float]:
    """Mean loss and accuracy."""
    model.eval()
    total = count = hits = 0
    with torch.no_grad():
        for inputs, targets in loader:
            output = model(inputs)
            total += loss_fn(output, targets).item() * len(targets)
            hits += (output.argmax(1) == targets).sum().item()
            count += len(targets)
    return total / count, hits / count

"""What the programs for libraries of models share: outputs and gradients as a case returns them."""

from __future__ import annotations

import torch

SAMPLES = 4000  # of a larger tensor, so many evenly spaced elements


def sampled(tensor: torch.Tensor, scale: float) -> list[float]:
    """Elements of `tensor` over `scale`: all, or SAMPLES of them."""
    flat = tensor.detach().reshape(-1)
    return (flat[:: max(1, -(-flat.numel() // SAMPLES))] / scale).tolist()


def results(model: torch.nn.Module, outputs: dict[str, torch.Tensor], loss: torch.Tensor) -> dict[str, object]:
    """Outputs, relative to the largest, and the gradients of all parameters, relative to the largest of all."""
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    largest = max(float(g.abs().max()) for g in gradients.values())
    return {
        "loss": loss.item(),
        "outputs": {name: sampled(t, float(t.detach().abs().max())) for name, t in outputs.items()},
        "largest": largest,
        "gradients": {name: sampled(g, largest) for name, g in gradients.items()},
        "without": sorted(name for name, p in model.named_parameters() if p.grad is None),
    }

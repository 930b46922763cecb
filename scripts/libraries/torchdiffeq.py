"""torchdiffeq: solutions and gradients of every kind of solver, and the time of an event, in double precision."""

from __future__ import annotations

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

SOLVERS = ["dopri5", "bosh3", "adaptive_heun", "euler", "midpoint", "rk4", "heun3", "explicit_adams", "implicit_adams"]


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).double()

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y**3)


def solution(solver: str, solve: object) -> list[torch.Tensor]:
    field, start = Field(), torch.tensor([[1.0, 0.5]], dtype=torch.float64, requires_grad=True)
    path = solve(field, start, torch.linspace(0.0, 1.0, 4, dtype=torch.float64), method=solver, rtol=1e-4, atol=1e-4)
    path[-1].sum().backward()
    return [path, start.grad, *(p.grad for p in field.parameters())]


def event() -> tuple[torch.Tensor, torch.Tensor]:
    def fall(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack([y[1], torch.full_like(y[1], -9.8)])

    start = torch.tensor([10.0, 0.0], dtype=torch.float64)
    return odeint_event(fall, start, torch.zeros((), dtype=torch.float64), event_fn=lambda t, y: y[0])


CASES = {
    **{name: lambda name=name: solution(name, odeint) for name in SOLVERS},
    **{f"{name}, adjoint": lambda name=name: solution(name, odeint_adjoint) for name in SOLVERS},
    "event": event,
}

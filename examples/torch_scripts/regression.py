"""Polynomial regression: with tensors only, with a custom autograd function, and with layers."""

import math

import torch

torch.manual_seed(0)
dtype = torch.float
x = torch.linspace(-math.pi, math.pi, 400, dtype=dtype)
y = torch.sin(x) + 0.05 * torch.randn(400)


class LegendrePolynomial3(torch.autograd.Function):
    """P3(x) = (5x³ - 3x) / 2, with a hand-written derivative."""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):  # pyright: ignore[reportIncompatibleMethodOverride]
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


def by_hand():
    a, b, c, d = (torch.randn((), dtype=dtype, requires_grad=True) for _ in range(4))
    for t in range(300):
        loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
        if t % 100 == 99:
            print("tensors", t, f"{loss.item():.5f}")
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                assert p.grad is not None
                p -= 2e-6 * p.grad
                p.grad = None


def by_function():
    a = torch.full((), 0.0, requires_grad=True)
    b = torch.full((), -1.0, requires_grad=True)
    c = torch.full((), 0.0, requires_grad=True)
    d = torch.full((), 0.3, requires_grad=True)
    for t in range(300):
        loss = (a + b * LegendrePolynomial3.apply(c + d * x) - y).square().sum()
        if t % 100 == 99:
            print("function", t, f"{loss.item():.5f}")
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                grad = p.grad
                assert grad is not None
                p -= 5e-6 * grad
                grad.zero_()


def by_layers():
    features = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
    linear = torch.nn.Linear(3, 1)
    model = torch.nn.Sequential(linear, torch.nn.Flatten(0, 1))
    loss_fn = torch.nn.MSELoss(reduction="sum")
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for t in range(600):
        loss = loss_fn(model(features), y)
        if t % 100 == 99:
            print("layers", t, f"{loss.item():.5f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    w = linear.weight[0].tolist()
    print(f"y = {linear.bias.item():.5f} + {w[0]:.5f} x + {w[1]:.5f} x^2 + {w[2]:.5f} x^3")


by_hand()
by_function()
by_layers()

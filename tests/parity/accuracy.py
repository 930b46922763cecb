"""How far float32 results and gradients are from float64 ones, against PyTorch's distance on the same data."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import tdt

FACTOR = 3  # a result may be this many times as far from the float64 one as PyTorch's
DRAWS = 2  # the errors are the largest over so many draws of the data
SHAPES = {"rows": (200_000, 8), "wide": (5_000, 600), "planes": (64, 12, 40, 40), "middle": (8, 30_000, 5)}
MEANS = {"0": (0.0, 1.0), "1": (1.0, 1.0), "100": (100.0, 0.01)}  # mean and deviation
Call = Callable[..., Any]  # called as call(library, *tensors)


@dataclass
class Case:
    """A function of tensors, the shapes of its operands, and the mean and deviation of their elements."""

    call: Call
    shapes: tuple[tuple[int, ...], ...]
    mean: float = 0.0
    deviation: float = 1.0
    gradient: bool = True
    elementwise: bool = False  # count errors in units of each element's last place, not of the largest one's


@dataclass
class Found:
    """The errors of a result or a gradient, in units in the last place."""

    name: str
    ours: float
    theirs: float

    @property
    def far(self) -> bool:
        return not self.ours <= max(FACTOR * self.theirs, 1.0)

    def __str__(self) -> str:
        return f"{self.name:62} error {self.ours:10.2f} ulp, PyTorch's {self.theirs:8.2f}"


def compare(name: str, seed: int) -> Iterator[Found]:
    """The errors of the case `name`, of its results and of the gradients of its operands."""
    case, errors = CASES[name], {}
    for draw in range(DRAWS):
        rng = np.random.default_rng([seed, draw, zlib.crc32(name.encode())])
        arrays = [(rng.standard_normal(s) * case.deviation + case.mean).astype(np.float32) for s in case.shapes]
        exact = _results(torch, case, arrays, "float64", seed)
        ours, theirs = (_results(library, case, arrays, "float32", seed) for library in (tdt, torch))
        for part, reference in exact.items():
            new = [_error(r[part], reference, case.elementwise) for r in (ours, theirs)]
            errors[part] = [max(a, b) for a, b in zip(errors.get(part, (0.0, 0.0)), new, strict=True)]
    for part, (a, b) in errors.items():
        yield Found(f"{name} {part}", a, b)


def _results(library: Any, case: Case, arrays: list[np.ndarray], dtype: str, seed: int) -> dict[str, np.ndarray]:
    tensors = [library.tensor(a).to(getattr(library, dtype)).requires_grad_(case.gradient) for a in arrays]
    results = case.call(library, *tensors)
    results = results if isinstance(results, tuple) else (results,)
    values = {f"result {i}": np.asarray(r.detach().numpy(), np.float64) for i, r in enumerate(results)}
    if case.gradient:
        rng = np.random.default_rng(seed)
        weights = rng.standard_normal(tuple(results[0].shape)).astype(np.float32)
        results[0].backward(library.tensor(weights).to(getattr(library, dtype)))
        values |= {f"gradient {i}": np.asarray(t.grad.numpy(), np.float64) for i, t in enumerate(tensors)}
    return values


def _error(got: np.ndarray, exact: np.ndarray, elementwise: bool) -> float:
    """The largest difference, in units in the last place of the exact value, or of the largest one."""
    finite = np.isfinite(exact)
    if not finite.any():
        return 0.0
    size = np.minimum(np.abs(exact[finite]), np.finfo(np.float32).max)
    unit = np.spacing((size if elementwise else size.max()).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got[finite] - exact[finite]) / unit))


def _batch_norm(library: Any, x: Any, w: Any, b: Any) -> tuple[Any, ...]:
    mean, variance = (library.zeros(x.shape[1], dtype=x.dtype) for _ in range(2))
    out = library.nn.functional.batch_norm(x, mean, variance, w, b, training=True)
    return out, mean, variance


def _recurrent(kind: str, library: Any, x: Any, *params: Any) -> Any:
    """The output of a recurrent layer whose parameters are `params` / 8."""
    layer = getattr(library.nn, kind)(x.shape[2], 32)
    names = [name for name, _ in layer.named_parameters()]
    values = {name: p / 8 for name, p in zip(names, params, strict=True)}
    return library.func.functional_call(layer, values, (x,))[0]


REDUCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda t, x, d: t.sum(x, d),
    "mean": lambda t, x, d: t.mean(x, d),
    "var": lambda t, x, d: t.var(x, d),
    "std": lambda t, x, d: t.std(x, d),
    "std_mean": lambda t, x, d: t.std_mean(x, d),
    "logsumexp": lambda t, x, d: t.logsumexp(x, tuple(range(x.ndim)) if d is None else d),
    "norm": lambda t, x, d: t.linalg.vector_norm(x, 2, d),
    "norm 1": lambda t, x, d: t.linalg.vector_norm(x, 1, d),
    "norm 3": lambda t, x, d: t.linalg.vector_norm(x, 3, d),
    "nansum": lambda t, x, d: t.nansum(x, d),
}
SCANS: dict[str, Call] = {
    "cumsum": lambda t, x, d: t.cumsum(x, d),
    "cumprod": lambda t, x, d: t.cumprod(1 + x / 1000, d),
    "logcumsumexp": lambda t, x, d: t.logcumsumexp(x, d),
}
LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "soft_margin_loss")
ELEMENTWISE = ("exp", "log", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
               "asinh", "atanh", "sigmoid", "erf", "rsqrt", "sqrt", "log2", "log10", "exp2")  # fmt: skip


def _dims(shape: tuple[int, ...]) -> list[int | tuple[int, ...] | None]:
    return [None, *range(len(shape)), *([(0, 2, 3)] if len(shape) == 4 else [(0, 1)] if len(shape) == 3 else [])]


def _sequence_cases() -> dict[str, Case]:
    """Scans and recurrent layers."""
    cases: dict[str, Case] = {}
    for name, call in SCANS.items():
        for shape, d in (((100_000, 8), 0), ((8, 100_000), 1), ((1_000_000,), 0)):
            for mean in ("0", "1"):
                function = lambda t, x, call=call, d=d: call(t, x, d)  # noqa: E731
                how = Case(function, (shape,), *MEANS[mean], gradient=name != "logcumsumexp")
                cases[f"{name} dim={d} of {shape}, mean {mean}"] = how
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        rows = gates * 32
        for length, batch in ((50, 16), (300, 4)):
            function = lambda t, *args, kind=kind: _recurrent(kind, t, *args)  # noqa: E731
            shapes = ((length, batch, 16), (rows, 16), (rows, 32), (rows,), (rows,))
            cases[f"{kind} of {length} steps"] = Case(function, shapes)
    return cases


def _all_cases() -> dict[str, Case]:
    cases = _sequence_cases()
    for mean, (m, s) in MEANS.items():
        for shape_name, shape in SHAPES.items():
            for name, call in REDUCTIONS.items():
                for d in _dims(shape):
                    function = lambda t, x, call=call, d=d: call(t, x, d)  # noqa: E731
                    cases[f"{name} dim={d} of {shape_name}, mean {mean}"] = Case(function, (shape,), m, s)
        for name, reduce in (("sum", "sum"), ("mean", "mean"), ("norm", "norm"), ("std", "std")):
            function = lambda t, x, reduce=reduce: getattr(t, reduce)(x)  # noqa: E731
            cases[f"{name} of 10,000,000, mean {mean}"] = Case(function, ((10_000_000,),), m, s, gradient=False)
        for name in LOSSES:
            function = lambda t, x, y, name=name: getattr(t.nn.functional, name)(x, y.detach())  # noqa: E731
            loss = lambda t, x, y, f=function: f(t, x, y) + 0 * y.sum()  # noqa: E731
            cases[f"{name} of 3,000,000, mean {mean}"] = Case(loss, ((3_000_000,), (3_000_000,)), m, s)
        linear = lambda t, x, w, b: t.nn.functional.linear(x, w, b)  # noqa: E731
        cases[f"linear of 100,000 rows, mean {mean}"] = Case(linear, ((100_000, 16), (8, 16), (8,)), m, s)
        conv = lambda t, x, w, b: t.nn.functional.conv2d(x, w, b, padding=1)  # noqa: E731
        for n, channels, out, size, kernel in (
            (4, 64, 64, 32, 3),
            (8, 256, 128, 14, 3),
            (2, 512, 32, 16, 3),
            (4, 48, 32, 20, 5),
        ):
            shapes = (n, channels, size, size), (out, channels, kernel, kernel), (out,)
            cases[f"conv2d of {shapes[0]} by {shapes[1]}, mean {mean}"] = Case(conv, shapes, m, s)
        add = lambda t, x, b: x + b  # noqa: E731
        cases[f"add of a row, mean {mean}"] = Case(add, ((100_000, 16), (16,)), m, s)
        for shape in ((100_000, 8), (32, 8, 50, 50), (300, 8), (16, 4, 500)):
            cases[f"batch_norm of {shape}, mean {mean}"] = Case(_batch_norm, (shape, (shape[1],), (shape[1],)), m, s)
        layer = lambda t, x, w, b: t.nn.functional.layer_norm(x, (256,), w, b)  # noqa: E731
        cases[f"layer_norm, mean {mean}"] = Case(layer, ((4000, 256), (256,), (256,)), m, s)
        group = lambda t, x, w, b: t.nn.functional.group_norm(x, 4, w, b)  # noqa: E731
        cases[f"group_norm, mean {mean}"] = Case(group, ((64, 16, 20, 20), (16,), (16,)), m, s)
    for name in ELEMENTWISE:
        function = lambda t, x, name=name: getattr(t, name)(_inside(t, x, name))  # noqa: E731
        cases[name] = Case(function, ((100_000,),), gradient=False, elementwise=True)
    return cases


def _inside(t: Any, x: Any, name: str) -> Any:
    """x, in the domain of the function `name`."""
    if name in ("asin", "acos", "atanh"):
        return x.clamp(-0.99, 0.99)
    return x.abs() if name in ("log", "log1p", "log2", "log10", "sqrt", "rsqrt") else x


CASES = _all_cases()

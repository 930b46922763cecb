"""Run the same module or function on tdt and on PyTorch, forward and backward, and compare everything that comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tdt
from tests.helpers import require_torch

torch = require_torch()
TOLERANCE = {np.dtype("float32"): 2e-5, np.dtype("float64"): 1e-10}


def of(lib: Any, array: np.ndarray) -> Any:
    """A tensor of `lib` with the values of `array`, wanting a gradient if it is floating-point."""
    t = lib.from_numpy(np.array(array))
    return t.requires_grad_(True) if t.is_floating_point() else t


def near(ours: Any, theirs: Any, what: str) -> None:
    """Fail unless a tdt and a PyTorch tensor have one shape, dtype and, within rounding, values."""
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    assert a.shape == b.shape, f"{what}: shape {a.shape}, PyTorch {b.shape}"
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, PyTorch {b.dtype}"
    tolerance = TOLERANCE.get(b.dtype, 0)
    largest = np.abs(b).max(initial=1, where=np.isfinite(b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(largest), err_msg=what)


def same_state(ours: Any, theirs: Any) -> None:
    """Put the state of a PyTorch module into a tdt module."""
    ours.load_state_dict({k: tdt.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()})


def agree_module(
    make: Callable[[Any], Any], *arrays: np.ndarray, train: bool = True, calls: int = 1
) -> tuple[Any, Any]:
    """Compare `make(lib)`, a module, on `arrays`: result, gradients of inputs and parameters, buffers. Returns both."""
    ours, theirs = make(tdt).train(train), make(torch).train(train)
    if any(a.dtype == np.float64 for a in arrays):
        ours, theirs = ours.double(), theirs.double()
    same_state(ours, theirs)
    for _ in range(calls):
        agree(lambda lib, *x: (ours if lib is tdt else theirs)(*x), *arrays)
    for (name, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            near(p.grad, q.grad.to_dense(), f"gradient of {name}")
    for (name, p), (_, q) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        near(p, q, f"buffer {name}")
    return ours, theirs


def agree(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """Compare `function(lib, *tensors)`: its results, and the gradients of its inputs for fixed random gradients."""
    inputs = [[of(lib, a) for a in arrays] for lib in (tdt, torch)]
    ours, theirs = function(tdt, *inputs[0]), function(torch, *inputs[1])
    pairs = list(zip(ours, theirs, strict=True)) if isinstance(theirs, tuple) else [(ours, theirs)]
    for i, (a, b) in enumerate(pairs):
        near(a, b, f"result {i}")
    random = np.random.default_rng(0)
    for a, b in pairs:
        if b.requires_grad:
            g = random.standard_normal(b.shape).astype(b.detach().numpy().dtype)
            a.backward(tdt.from_numpy(g), retain_graph=True)
            b.backward(torch.from_numpy(g), retain_graph=True)
    for i, (a, b) in enumerate(zip(*inputs, strict=True)):
        assert (a.grad is None) == (b.grad is None), f"gradient of input {i}"
        if b.grad is not None:
            near(a.grad, b.grad, f"gradient of input {i}")


def agree_error(function: Callable[[Any], Any], clause: str = "") -> None:
    """Both libraries refuse `function(lib)` with the same class; ours says `clause`, or PyTorch's first clause."""
    errors = []
    for lib in (tdt, torch):
        try:
            function(lib)
        except Exception as error:  # noqa: BLE001  (it is what is compared)
            errors.append(error)
        else:
            raise AssertionError(f"{lib.__name__} raised nothing")
    ours, theirs = errors
    assert type(ours) is type(theirs), f"{ours!r}, PyTorch {theirs!r}"
    expected = clause or str(theirs).split("\n")[0].replace("torch.", "tdt.")
    assert expected in str(ours).replace("torch.", "tdt."), f"{ours}, PyTorch: {theirs}"


def as_plain(value: Any) -> Any:
    """Tensors as lists of rounded numbers, so that two libraries' accounts can be compared."""
    if isinstance(value, (tdt.Tensor, torch.Tensor)):
        flat = value.detach().reshape(-1).tolist()
        return (tuple(value.shape), [round(number, 4) for number in flat])
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value


def agree_on_program(program: Callable[[Any], Any]) -> None:
    """Both libraries' `program(lib)` returns the same: numbers, text, tensors, lists and dicts of them."""
    ours, theirs = (as_plain(program(lib)) for lib in (tdt, torch))
    assert ours == theirs, f"tdt: {ours}\nPyTorch: {theirs}"


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)

"""`gradcheck` and `gradgradcheck`: compare gradients with finite differences, entry by entry or along a direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.dtype import FLOAT, complex128, float64
from tdt._core.mode import enable_grad, no_grad
from tdt._core.tensor import LEAF, Tensor, alias, wrap


class GradcheckError(RuntimeError):
    """A gradient that differs from the finite difference."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func(*inputs)` equal central differences, for every input that requires grad.

    Each entry of an output is differentiated separately; of complex outputs the real and the imaginary part.

    Args:
        func: a function of tensors that returns tensors.
        inputs: its arguments. Those that require grad must be float64 or complex128.
        eps: step of the finite differences.
        atol, rtol: absolute and relative tolerance.
        raise_exception: raise GradcheckError for a mismatch; else return False.
        nondet_tol: added to `atol`, for functions whose results vary between calls.
        check_backward_ad: check gradients; else nothing is checked.
        fast_mode: check each pair of an output and an input along one random direction, which takes two calls of `func`
            instead of two for each entry; the entries are checked one by one where that finds a difference.
        check_undefined_grad, check_grad_dtypes, masked: have no effect.

    Raises:
        NotImplementedError: when gradients of batches, or forward mode, are to be checked, which there is not.
        GradcheckError: when a gradient differs; the message has the position and both numbers.
        ValueError: when no input requires grad, or one that does has another dtype.
        RuntimeError: when an input has elements that share memory, such as an expanded tensor.

    >>> import tdt
    >>> x = tdt.tensor([0.5, 2.0], dtype=tdt.float64, requires_grad=True)
    >>> tdt.autograd.gradcheck(tdt.tanh, x)
    True
    """
    if check_forward_ad or check_batched_forward_grad or check_batched_grad:
        raise NotImplementedError(
            "gradcheck checks neither forward mode nor gradients of batches; leave these switches off"
        )
    if not check_backward_ad:
        return True
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check(func, inputs, eps, atol + nondet_tol, rtol, fast_mode)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    result = func(*inputs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [r for r in results if isinstance(r, Tensor) and r.dtype.category >= FLOAT]


def _check(func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, fast: bool) -> None:
    differentiable = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not differentiable:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them does")
    for i in differentiable:
        if inputs[i].dtype not in (float64, complex128):
            raise ValueError(
                f"gradcheck: input {i} is {inputs[i].dtype}; finite differences need float64 or complex128"
            )
        if _backend.overlaps_itself(inputs[i]._a):
            raise RuntimeError(f"gradcheck: input {i} repeats elements of memory (expanded); clone() it first")
    outputs = _outputs(func, inputs)
    if fast and not (differs := _along_random_directions(func, inputs, differentiable, outputs, eps, atol, rtol)):
        return
    numeric = {i: _differences(func, inputs, i, eps, outputs) for i in differentiable}
    for o, out in enumerate(outputs):
        if not out.requires_grad:
            if any(np.abs(numeric[i][o]).max(initial=0) > atol for i in differentiable):
                raise GradcheckError(f"output {o} does not require grad, but it changes with the inputs")
            continue
        for part in (1, 1j) if out.dtype.is_complex else (1,):
            for entry in range(out.numel()):
                seed = np.zeros(out.numel(), out._a.dtype)
                seed[entry] = part
                found = _grad(out, [inputs[i] for i in differentiable], wrap(seed.reshape(out._a.shape)))
                for i, g in zip(differentiable, found, strict=True):
                    # The gradient of a real loss L = Re(conj(part) * out): dL/dx, and for complex x also i dL/d(Im x).
                    loss = (np.conj(part) * numeric[i][o][:, entry]).real
                    expected = loss[:, 0] + 1j * loss[:, 1] if inputs[i].dtype.is_complex else loss[:, 0]
                    _compare(g, expected, inputs[i], f"output {o} entry {entry}", i, atol, rtol)
    if fast:  # no entry of its own is beyond the tolerance
        raise GradcheckError(differs)


def _along_random_directions(
    func: Callable,
    inputs: tuple,
    differentiable: list[int],
    outputs: list[Tensor],
    eps: float,
    atol: float,
    rtol: float,
) -> str:
    """The first pair of an output and an input whose derivative along random directions differs; "" if all agree."""
    rng = np.random.default_rng(0)
    directions = {i: _direction(rng, inputs[i]) for i in differentiable}
    moved = {i: _moved(func, inputs, i, eps * directions[i]) for i in differentiable}
    for o, out in enumerate(outputs):
        seed = _direction(rng, out)
        found: Sequence[Any] = [None] * len(differentiable)
        if out.requires_grad:
            found = _grad(out, [inputs[i] for i in differentiable], wrap(seed))
        for i, g in zip(differentiable, found, strict=True):
            if g is not None:
                _check_form(g, inputs[i], i)
            up, down = (values[o] for values in moved[i])
            # Of the real loss L = Re(conj(seed) * out): the gradient's share in the direction, and the difference.
            expected = np.vdot(seed, (up - down).reshape(seed.shape)).real / (2 * eps)
            actual = 0.0 if g is None else np.vdot(_dense(g), directions[i]).real
            scale = np.abs(directions[i]).sum() * np.abs(seed).sum()
            if not np.isclose(actual, expected, rtol=rtol, atol=atol * scale, equal_nan=True):
                return (
                    f"Jacobian mismatch for output {o} with respect to input {i} along a random direction: "
                    f"numerical {expected}, analytical {actual}"
                )
    return ""


def _direction(rng: np.random.Generator, x: Tensor) -> np.ndarray:
    """A random direction of length 1 in the space of `x`."""
    found = np.asarray(rng.standard_normal(x._a.shape), x._a.dtype)
    if x.dtype.is_complex:
        found = found + 1j * rng.standard_normal(x._a.shape)
    return np.asarray(found / max(float(np.linalg.norm(found.reshape(-1))), 1e-30))


def _moved(func: Callable, inputs: tuple, i: int, step: np.ndarray) -> list[list[np.ndarray]]:
    """The outputs with `step` added to input i, and with it subtracted."""
    x, found = inputs[i]._a, []
    with no_grad():
        for change in (step, -step):
            moved = x.copy(order="K")
            moved += _backend.to_device(np.asarray(change), _backend.device_of(x))
            found.append([_dense(out).copy() for out in _outputs(func, (*inputs[:i], wrap(moved), *inputs[i + 1 :]))])
    return found


def _grad(out: Tensor, inputs: list[Tensor], seed: Tensor) -> tuple:
    from tdt.autograd._backward import grad

    return grad(out, inputs, seed, retain_graph=True, allow_unused=True)


def _compare(g: Any, expected: np.ndarray, x: Tensor, where: str, i: int, atol: float, rtol: float) -> None:
    if g is not None:
        _check_form(g, x, i)
    actual = np.zeros_like(expected) if g is None else _dense(g).reshape(-1)
    bad = ~np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    if bad.any():
        at = int(bad.argmax())
        raise GradcheckError(
            f"Jacobian mismatch for {where} with respect to input {i} entry {at}: "
            f"numerical {expected[at]}, analytical {actual[at]}"
        )


def _check_form(g: Tensor, x: Tensor, i: int) -> None:
    if g._a.shape != x._a.shape or g.dtype is not x.dtype:
        raise GradcheckError(f"gradient of input {i} is {g.dtype} {list(g.shape)}, the input {x.dtype} {list(x.shape)}")


def _dense(g: Tensor) -> np.ndarray:
    return _backend.to_device(g._a.dense() if g.is_sparse else g._a, _backend.CPU)


def _differences(func: Callable, inputs: tuple, i: int, eps: float, outputs: list[Tensor]) -> list[np.ndarray]:
    """Central differences of each output by each entry of input i: arrays (entries of x, entries of out, parts of x).

    x has 2 parts if it is complex, else 1.
    """
    x = inputs[i]
    parts = (1, 1j) if x.dtype.is_complex else (1,)
    found = [np.zeros((x.numel(), out.numel(), len(parts)), out._a.dtype) for out in outputs]

    def at(entry: int, move: complex) -> list[np.ndarray]:
        moved = x._a.copy(order="K")
        moved[np.unravel_index(entry, moved.shape)] += move
        return [_dense(out).reshape(-1).copy() for out in _outputs(func, (*inputs[:i], wrap(moved), *inputs[i + 1 :]))]

    with no_grad():
        for entry in range(x.numel()):
            for p, part in enumerate(parts):
                for o, (up, down) in enumerate(zip(at(entry, eps * part), at(entry, -eps * part), strict=True)):
                    found[o][entry, :, p] = (up - down) / (2 * eps)
    return found


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether second derivatives are right: `gradcheck` of the gradient of `func`, in its inputs and in grad_outputs.

    Args:
        grad_outputs: one per differentiable output; drawn at random (fixed seed) if left out.
        check_rev_over_rev: check second derivatives; else nothing is checked.
        fast_mode: as in `gradcheck`: along random directions instead of entry by entry.
        check_undefined_grad, check_grad_dtypes, masked: have no effect.

    Raises:
        NotImplementedError: when gradients of batches, or forward mode, are to be checked, which there is not.

    >>> import tdt
    >>> x = tdt.tensor([0.5, 2.0], dtype=tdt.float64, requires_grad=True)
    >>> tdt.autograd.gradgradcheck(lambda x: x**3, x)
    True
    """
    from tdt.autograd._backward import grad

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        outputs = [o for o in _outputs(func, inputs) if o.requires_grad]
        grad_outputs = [_random_like(out, gen_non_contig_grad_outputs) for out in outputs]
    grad_outputs = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)

    def gradient(*args: Any) -> tuple:
        xs = [_leaf(x._a) if isinstance(x, Tensor) and x is not inputs[i] and inputs[i].requires_grad else x
              for i, x in enumerate(args[: len(inputs)])]  # fmt: skip
        differentiable = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        with enable_grad():
            outs = [o for o in _outputs(func, xs) if o.requires_grad]
            found = grad(outs, differentiable, args[len(inputs) :], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
    )  # fmt: skip


def _random_like(out: Tensor, strided: bool) -> Tensor:
    rng = np.random.default_rng(0)
    value = rng.standard_normal(out._a.shape)
    value = np.asarray(value + 1j * rng.standard_normal(out._a.shape) if out.dtype.is_complex else value, out._a.dtype)
    return _leaf(np.stack([value, value], -1)[..., 0] if strided else value)


def _leaf(array: np.ndarray) -> Tensor:
    return alias(array, LEAF)

"""Gradient clipping by norm and by value (Pascanu, Mikolov & Bengio, 2013)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.mode import computed
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import lazy, on_one_gpu
from tdt._ops.linalg.norms import vector_norm
from tdt.autograd import no_grad
from tdt.nn._deprecated import deprecated_alias

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


_norm_on_gpu, _clip_on_gpu = lazy("optim_gpu:norm"), lazy("optim_gpu:clip")


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """p-norm of all tensors together, as if they were one vector; 0 for none.

    Args:
        norm_type: degree p of the norm; infinity for the largest magnitude.
        error_if_nonfinite: whether a norm that is NaN or infinite is an error.
        foreach: accepted without effect.
    Shape: tensors of any shapes; result ().
    Raises:
        RuntimeError: when the norm is not finite and `error_if_nonfinite` is set.

    >>> import tdt
    >>> tdt.nn.utils.get_total_norm([tdt.tensor([3.0]), tdt.tensor([4.0])])
    tensor(5.)
    """
    p = float(norm_type)
    tensors = [t.coalesce().values() if t.is_sparse else t for t in _listed(tensors)]
    if not tensors:
        return wrap(np.zeros((), np.float32))
    arrays = on_one_gpu(tensors) if p == 2.0 else None
    if arrays:
        with _backend.on_gpu_of(arrays[0]):
            total = wrap(_norm_on_gpu(arrays))
    elif p == 2.0 and all(t._a.__class__ is np.ndarray and t._a.dtype.itemsize > 2 for t in tensors):
        total = wrap(computed(_joint_length, [t._a for t in tensors]))
    else:
        total = _joint_norm([_norm(t, p) for t in tensors], p)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped: it is "
            f"{total.item()}. Pass error_if_nonfinite=False to scale by it all the same"
        )
    return total


def _joint_norm(norms: list[Any], p: float) -> Tensor:
    """The p-norm of vectors together, from the arrays of the p-norm of each."""
    xp, first = _backend.namespace(norms[0]), norms[0]
    if _backend.several_gpus():
        norms = [_backend.to_device(norm, _backend.device_of(first)) for norm in norms]
    with _backend.on_gpu_of(first):
        return wrap(xp.asarray(_norm(wrap(xp.stack(norms)), p)))


def _norm(t: Tensor, p: float) -> Any:
    """The p-norm of a tensor as one vector, an array."""
    a = t._a
    if p == 2.0 and a.dtype.itemsize > 2:  # half precision is summed in float32
        with _backend.on_gpu_of(a):
            return _length(a)
    return vector_norm(t, p)._a


def _length(a: Any) -> Any:
    """The Euclidean norm of an array as one vector."""
    xp, a = _backend.namespace(a), a.reshape(-1)
    return xp.sqrt(xp.vdot(a, a).real)


def lengths(tensors: Iterable[Tensor]) -> Tensor:
    """The Euclidean norm of each of some tensors on the CPU, as one vector."""
    return wrap(computed(_lengths, [t._a for t in tensors]))


def _lengths(*arrays: np.ndarray) -> np.ndarray:
    return np.stack([_length(a) for a in arrays])


def _joint_length(*arrays: np.ndarray) -> np.ndarray:
    """The Euclidean norm of arrays together."""
    return np.asarray(_length(_lengths(*arrays)))


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiplies the gradients of `parameters` in place by max_norm / total_norm where that is below 1.

    Args:
        foreach: accepted without effect.
    Shape: parameters of any shapes, total_norm ().

    >>> import tdt
    >>> w = tdt.zeros(2, requires_grad=True)
    >>> w.grad = tdt.tensor([3.0, 4.0])
    >>> tdt.nn.utils.clip_grads_with_norm_([w], 1.0, tdt.tensor(5.0)); w.grad
    tensor([0.6000, 0.8000])
    """
    # A multiplication by 1 where nothing is clipped: no synchronisation with the device.
    grads = _gradients(parameters)
    if (arrays := on_one_gpu([*grads, total_norm])) and total_norm.ndim == 0:
        with _backend.on_gpu_of(arrays[0]):
            _clip_on_gpu(arrays[:-1], arrays[-1], float(max_norm))
        for g in grads:
            g._st.bump_version()
        return
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        fits = g.dtype is scale.dtype and not g.is_cuda
        g.mul_(scale if fits else scale.to(g.device if g.is_cuda else scale.device, g.dtype))


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients in place so that their common norm is at most `max_norm`; returns the norm before clipping.

    Args:
        norm_type: degree p of the norm; infinity for the largest magnitude.
        error_if_nonfinite: whether a norm that is NaN or infinite is a RuntimeError.
        foreach: accepted without effect.
    Shape: parameters of any shapes; result ().
    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.

    >>> import tdt
    >>> w = tdt.zeros(2, requires_grad=True)
    >>> w.grad = tdt.tensor([3.0, 4.0])
    >>> tdt.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    is_generator, parameters = isinstance(parameters, GeneratorType), _listed(parameters)
    if is_generator and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


clip_grad_norm = deprecated_alias(clip_grad_norm_, "torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grad_norm_")


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamps every element of the gradients to [-clip_value, clip_value] in place.

    Args:
        foreach: accepted without effect.
    Shape: parameters of any shapes.

    >>> import tdt
    >>> w = tdt.zeros(2, requires_grad=True)
    >>> w.grad = tdt.tensor([-3.0, 0.5])
    >>> tdt.nn.utils.clip_grad_value_(w, 1.0); w.grad
    tensor([-1.0000,  0.5000])
    """
    for g in _gradients(parameters):
        g.clamp_(-float(clip_value), float(clip_value))

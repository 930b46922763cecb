"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tdt._core.tensor import Tensor
from tdt._ops.shape.join import cat
from tdt.nn.modules.module import typename


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Elements of all parameters in one vector; gradients flow back to them.

    Shape: parameters of any shapes; result (number of elements,).
    Raises:
        TypeError: when parameters are on different devices.

    >>> from tdt import nn
    >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
    tdt.Size([9])
    """
    return cat([p.view(-1) for p in _on_one_device(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Sets every parameter to its part of `vec`, in the order of `parameters_to_vector`; memory is shared with `vec`.

    Shape: vec (number of elements,).
    Raises:
        TypeError: when `vec` is not a tensor or parameters are on different devices.

    >>> import tdt
    >>> layer = tdt.nn.Linear(2, 1)
    >>> tdt.nn.utils.vector_to_parameters(tdt.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.bias.item()
    3.0
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for p in _on_one_device(parameters):
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()


def _on_one_device(parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    where = None
    for p in parameters:
        where = p.device if where is None else where
        if p.device != where:
            raise TypeError(f"Found two parameters on different devices, {where} and {p.device}, this is currently not "
                            "supported.")  # fmt: skip
        yield p


__all__ = ["parameters_to_vector", "vector_to_parameters"]

"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tdt._core.tensor import Tensor
from tdt._ops.shape.join import cat
from tdt.nn.modules.module import typename


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The entries of all parameters, one after the other; gradients flow back to them.

    TypeError for parameters on different devices.

    >>> from tdt import nn
    >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
    tdt.Size([9])
    """
    return cat([p.view(-1) for p in _on_one_device(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let every parameter hold its part of `vec`, in the order of `parameters_to_vector`; memory is shared with `vec`.

    TypeError if `vec` is no tensor, or for parameters on different devices.

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

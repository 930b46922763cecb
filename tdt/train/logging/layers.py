"""Outputs of the layers of a model for a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack

import tdt
from tdt import Tensor, nn
from tdt.train._types import Nested
from tdt.utils._evaluating import evaluating
from tdt.utils._nested import tensors_in


def layer_outputs(model: nn.Module, layers: Iterable[str], inputs: Nested) -> list[tuple[str, Tensor]]:
    """(layer, its first output tensor) for each call of one of `layers`, in order, in evaluation mode.

    The model is not changed.

    >>> import tdt
    >>> from tdt.train.logging.layers import layer_outputs
    >>> model = tdt.nn.Sequential(tdt.nn.Linear(3, 2), tdt.nn.ReLU())
    >>> [(name, tuple(x.shape)) for name, x in layer_outputs(model, ["1"], tdt.ones(5, 3))]
    [('1', (5, 2))]
    """
    found: list[tuple[str, Tensor]] = []

    def keep(name: str) -> Callable[..., None]:
        return lambda layer, args, output: found.extend((name, tensor.clone()) for tensor in tensors_in(output)[:1])

    with ExitStack() as hooks, evaluating(model), tdt.no_grad():
        for name in layers:
            hooks.enter_context(model.get_submodule(name).register_forward_hook(keep(name)))
        model(inputs)
    return found

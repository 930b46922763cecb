"""`torch._dynamo._trace_wrapped_higher_order_op`: a context for tracing mask functions; raises on entry."""

from __future__ import annotations

from typing import NoReturn


class TransformGetItemToIndex:
    """A block in which PyTorch lets a tensor be an index while it traces a function under vmap."""

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            "TransformGetItemToIndex: tdt traces no functions; index a tensor with a tensor, under tdt.vmap too"
        )

    def __exit__(self, *error: object) -> None:
        pass

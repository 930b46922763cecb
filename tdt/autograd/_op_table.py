"""Every op by name, filled by `@op`.

It is also how autograd gets the few ops that it calls itself. `tdt/_ops` imports autograd, never the other way round; an op
that has a public function stays beside that function, and autograd looks it up when it needs it, long after all ops are
registered. `tests/test_architecture.py` checks that autograd looks up no op but these and those of `_engine_ops.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tdt.autograd._op import Op

OPS: dict[str, Op] = {}

# The ops of `tdt/_ops` that autograd calls, and what for.
CALLED_BY_AUTOGRAD = {
    "clone": "an in-place method that works by a copy must not change what its function keeps for backward",
    "copy": "the result of such a method is written over the tensor",
    "permute": "a view follows a base whose dimensions were permuted in place",
    "squeeze": "the same, for dimensions of size 1",
    "to_device": "the gradient of a number on the CPU, an operand beside those on a GPU, comes back to the CPU",
    "stack": "grad(is_grads_batched=True) stacks the gradients of the batch",
    "view": "the same as permute, for the sizes",
}

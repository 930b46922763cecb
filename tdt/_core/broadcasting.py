"""Broadcasting of shapes, with PyTorch's error messages."""

from __future__ import annotations


def check_broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `shapes` broadcast to; RuntimeError names the dimension that does not match."""
    result: list[int] = []
    for shape in shapes:
        padded = [1] * (len(shape) - len(result)) + result
        for i in range(1, len(shape) + 1):
            a, b = padded[-i], shape[-i]
            if a != b and 1 not in (a, b):
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension "
                    f"{len(padded) - i}; shapes are {' and '.join(str(list(s)) for s in shapes)}"
                ) from None  # NumPy's refusal would say the same again
            padded[-i] = b if a == 1 else a
        result = padded
    return tuple(result)

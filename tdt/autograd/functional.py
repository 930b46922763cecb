"""Jacobians, Hessians, and their products with vectors: `autograd.functional`.

A product with a tangent, J v, is the gradient of (uᵀ J) v for u, which is linear in u: two reverse passes and no
forward mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.mode import enable_grad
from tdt._core.tensor import Tensor
from tdt._ops.shape.join import stack
from tdt.autograd._backward import grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]
OUTPUT = "The output of the user-provided function"
STRATEGIES = ("reverse-mode", "forward-mode")


def _tuple(tensors: Any, what: str, function: str) -> tuple[bool, Tensors]:
    """Whether `tensors` is a tuple, and its tensors as a tuple. TypeError if one is not a tensor."""
    several = isinstance(tensors, tuple)
    values = tensors if several else (tensors,)
    for i, x in enumerate(values):
        if not isinstance(x, Tensor):
            where = f" at {i}" if several else ""
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the value{where} has "
                f"type {type(x)}."
            )
    return several, values


def _untuple(values: tuple, several: bool) -> Any:
    return values if several else values[0]


def _fresh(inputs: Tensors, create_graph: bool) -> Tensors:
    """The inputs to differentiate by: views of `inputs` if the result must be differentiable, else detached tensors."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _vectors(v: Any, like: Tensors, what: str, create_graph: bool) -> Tensors | None:
    """The vectors, one per tensor of `like` and of its shape; None if `v` is None and there is a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {what} is a single Tensor with one element.")
        return None
    _, vectors = _tuple(v, "v", "function")
    if len(vectors) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}, one for each {what}"
        )
    for i, (a, b) in enumerate(zip(vectors, like, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(
                f"v has invalid size: entry {i} should be {list(b.shape)}, as the {what}, but got {list(a.shape)}"
            )
    return vectors if create_graph else tuple(x.detach() for x in vectors)


def gradients(
    outputs: Tensors, inputs: Tensors, weights: Any = None, *, strict: str = "", create_graph: bool = False
) -> list[Tensor | None]:
    """Gradients, None for an unused input. strict: the outputs' name in the error for an unused input, "" for no error."""
    differentiable = [k for k, y in enumerate(outputs) if y.requires_grad]
    if not differentiable:
        found: Any = (None,) * len(inputs)
    else:
        found = grad(
            [outputs[k] for k in differentiable],
            inputs,
            None if weights is None else [weights[k] for k in differentiable],
            allow_unused=True,
            create_graph=create_graph,
            retain_graph=True,
        )
    if strict:
        for i, g in enumerate(found):
            if g is None:
                raise RuntimeError(f"{strict} is independent of input {i}. This is not allowed in strict mode.")
    return list(found)


def zeros_for_none(found: Any, like: Tensors) -> Tensors:
    return tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(found, like, strict=True))


def _results(values: Tensors, create_graph: bool) -> Tensors:
    return values if create_graph else tuple(x.detach() for x in values)


def _run(func: Callable[..., Any], inputs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    several, outputs = _tuple(func(*inputs), "outputs", name)
    if strict:
        for k, y in enumerate(outputs):
            if not y.requires_grad:
                raise RuntimeError(
                    f"Output {k} of the user-provided function does not require gradients. The outputs must be computed in "
                    "a differentiable manner from the input when running in strict mode."
                )
    return several, outputs


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`func(*inputs)`, and the product of `v` with its Jacobian: one tensor per input.

    func: maps tensors to a tensor or a tuple of tensors. v: of the outputs' shapes; may be omitted for a single element.
    create_graph: the results can be differentiated. strict: RuntimeError if the outputs do not depend on an input.

    >>> import tdt
    >>> tdt.autograd.functional.vjp(lambda x: x**2, tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        several_in, primals = _tuple(inputs, "inputs", "vjp")
        xs = _fresh(primals, create_graph)
        several, ys = _run(func, xs, "vjp", strict)
        weights = _vectors(v, ys, "output of the user-provided function", create_graph)
        found = gradients(ys, xs, weights, strict=OUTPUT if strict else "", create_graph=create_graph)
    products = zeros_for_none(found, xs)
    return _untuple(_results(ys, create_graph), several), _untuple(_results(products, create_graph), several_in)


def forward_product(ys: Tensors, xs: Tensors, v: Tensors, strict: str, create_graph: bool) -> Tensors:
    """J v, for the outputs `ys` of `xs`: the gradient of (uᵀ J) v for u."""
    us = tuple(y.new_zeros(y.shape).requires_grad_() for y in ys)
    found_rows = gradients(ys, xs, us, strict=strict, create_graph=True)
    used = [(r, t) for r, t in zip(found_rows, v, strict=True) if r is not None]
    if not used:
        return zeros_for_none([None] * len(ys), ys)
    found = gradients(tuple(r for r, _ in used), us, [t for _, t in used], create_graph=create_graph)
    return zeros_for_none(found, ys)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`func(*inputs)`, and the product of its Jacobian with `v`: one tensor per output.

    v: of the inputs' shapes; may be omitted for a single element. The other arguments are those of `vjp`.

    >>> import tdt
    >>> tdt.autograd.functional.jvp(lambda x: x**2, tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        _, primals = _tuple(inputs, "inputs", "jvp")
        xs = _fresh(primals, create_graph)
        vectors = _vectors(v, xs, "input to the user-provided function", create_graph)
        vectors = vectors or (xs[0].new_ones(xs[0].shape),)
        several, ys = _run(func, xs, "jvp", strict)
        name = OUTPUT if strict else ""
        products = forward_product(ys, xs, vectors, name, create_graph)
    return _untuple(_results(ys, create_graph), several), _untuple(_results(products, create_graph), several)


def rows(y: Tensor, xs: Tensors, k: int, strict: bool, create_graph: bool) -> list[Tensor]:
    """The Jacobian of one output for each input: shape y.shape + x.shape."""
    entries = y.reshape(-1)
    found = []
    for j in range(entries.numel()):
        row = gradients((entries[j],), xs, strict=f"Output {k} of the user-provided function" if strict else "",
                    create_graph=create_graph)  # fmt: skip
        if strict and create_graph and any(g is not None and not g.requires_grad for g in row):
            raise RuntimeError(
                "The jacobian of the user-provided function is independent of an input. This is not allowed in strict mode "
                "when create_graph=True."
            )
        found.append(zeros_for_none(row, xs))
    shapes = [(*y.shape, *x.shape) for x in xs]
    if not found:
        return [y.new_zeros(shape) for shape in shapes]
    return [stack(column).reshape(shape) for column, shape in zip(zip(*found, strict=True), shapes, strict=True)]


def _check_strategy(strategy: str, vectorize: bool, strict: bool, create_graph: bool) -> None:
    if strategy not in STRATEGIES:
        raise AssertionError(
            f"Expected strategy to be either 'forward-mode' or 'reverse-mode'. Got {strategy!r}; 'reverse-mode' suits "
            "outputs that are no larger than the inputs"
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "create_graph=True is not available with strategy='forward-mode'; use 'reverse-mode'"
            )
        if not vectorize:
            raise NotImplementedError("strategy='forward-mode' needs vectorize=True")
    if strict and vectorize:
        raise RuntimeError("strict=True and vectorized=True are not supported together; set one of them to False")


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of every output entry by every input entry, of shape output.shape + input.shape.

    One tensor for one output and one input; for a tuple of inputs a tuple, for a tuple of outputs a tuple of these.
    create_graph: the result can be differentiated. strict: RuntimeError where an input changes no output. vectorize and
    strategy change nothing about the result: it is always computed row by row, in reverse.

    >>> import tdt
    >>> tdt.autograd.functional.jacobian(lambda x: x**2, tdt.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy(strategy, vectorize, strict, create_graph)
    with enable_grad():
        several_in, primals = _tuple(inputs, "inputs", "jacobian")
        xs = _fresh(primals, create_graph)
        several, ys = _run(func, xs, "jacobian", strict)
        found = tuple(
            _untuple(_results(tuple(rows(y, xs, k, strict, create_graph)), create_graph), several_in)
            for k, y in enumerate(ys)
        )
    return _untuple(found, several)


def _scalar(func: Callable[..., Any], inputs: Tensors, name: str, strict: bool) -> Tensor:
    several, ys = _run(func, inputs, name, strict)
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if ys[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, but it has shape "
            f"{list(ys[0].shape)}"
        )
    return ys[0].reshape(())


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one result, of shape input.shape + input.shape.

    For a tuple of inputs a tuple of tuples: [i][j] by inputs i and j. The rest is as in `jacobian`.

    >>> import tdt
    >>> tdt.autograd.functional.hessian(lambda x: (x**3).sum(), tdt.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several_in, primals = _tuple(inputs, "inputs", "hessian")

    def gradient(*xs: Tensor) -> Tensors:
        y = _scalar(func, xs, "hessian", strict)
        slopes = gradients((y,), xs, strict=OUTPUT if strict else "", create_graph=True)
        return zeros_for_none(slopes, xs)

    found = jacobian(gradient, primals, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if several_in else found[0][0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`func(*inputs)`, one number, and the product of `v` with its Hessian: one tensor per input.

    >>> import tdt
    >>> tdt.autograd.functional.vhp(lambda x: (x**3).sum(), tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _second(func, inputs, v, create_graph, strict, "vhp")


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`func(*inputs)`, one number, and the product of its Hessian with `v`: the same numbers as `vhp`, for smooth functions.

    >>> import tdt
    >>> tdt.autograd.functional.hvp(lambda x: (x**3).sum(), tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _second(func, inputs, v, create_graph, strict, "hvp")


def _second(
    func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, name: str
) -> tuple[Any, Any]:
    with enable_grad():
        several_in, primals = _tuple(inputs, "inputs", name)
        xs = _fresh(primals, create_graph)
        vectors = _vectors(v, xs, "input to the user-provided function", create_graph)
        vectors = vectors or (xs[0].new_ones(xs[0].shape),)
        y = _scalar(func, xs, name, strict)
        strict_name = OUTPUT if strict else ""
        slopes = zeros_for_none(gradients((y,), xs, strict=strict_name, create_graph=True), xs)
        strict_name = "The gradient of the user-provided function" if strict else ""
        if name == "vhp":
            products = zeros_for_none(gradients(slopes, xs, vectors, strict=strict_name, create_graph=create_graph), xs)
        else:
            products = forward_product(slopes, xs, vectors, strict_name, create_graph)
    return _untuple(_results((y,), create_graph), False), _untuple(_results(products, create_graph), several_in)

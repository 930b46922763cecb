"""Function transforms: grad, jacobians, vmap.

Arguments and results may be tensors in tuples, lists and dicts. How `vmap` computes all entries at once: `tdt._batching`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, ParamSpec, TypeVar

from tdt._batching import Batching, NotBatched
from tdt._core.mode import enable_grad, state
from tdt._core.tensor import LEAF, Tensor
from tdt._ops.shape.join import stack
from tdt._random import get_rng_state, moved_since, position, set_rng_state
from tdt.autograd._views import edge_of
from tdt.autograd.functional import forward_product, gradients, rows, zeros_for_none

Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")


def _leaves(tree: Any) -> list[Any]:
    """What a nest of tuples, lists and dicts holds, in order."""
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in _leaves(part)]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """A nest like `tree`, with other leaves."""
    if isinstance(tree, dict):
        return {key: _filled(part, leaves) for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [_filled(part, leaves) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return next(leaves)


def _like(tree: Any, leaves: Any) -> Any:
    return _filled(tree, iter(leaves))


class _Level:
    """One differentiation level: `func` called on fresh tensors, and whether its result is part of an enclosing graph."""

    def __init__(self, func: Function, args: tuple, kwargs: dict, argnums: Any, has_aux: bool):
        self.single = isinstance(argnums, int)
        places = (argnums,) if self.single else tuple(argnums)
        for i in places:
            if not -len(args) <= i < len(args):
                raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
        self.chosen = tuple(args[i] for i in places)
        inputs = _leaves(self.chosen)
        for x in inputs:
            if not isinstance(x, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        record, self.batching = state.grad, state.batching
        with enable_grad():
            self.xs = tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs)
            if state.batching is not None:
                for source, x in zip(inputs, self.xs, strict=True):
                    state.batching.differentiate(source, x)
            args = list(args)  # type: ignore[assignment]
            for i, x in zip(places, _like(self.chosen, self.xs), strict=True):
                args[i] = x  # type: ignore[index]
            result = func(*args, **kwargs)
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise RuntimeError("Expected output of f to be a two-element tuple (output, aux) if has_aux is True")
            result, self.aux = result
        self.out, self.ys = result, _leaves(result)
        for y in self.ys:
            if not isinstance(y, Tensor):
                raise RuntimeError(f"Expected f(*args) to return only tensors, got unsupported type {type(y)}")
        self.deep = record and self._leads_out()

    def gradients(self, outputs: tuple, weights: Any = None) -> tuple:
        """The gradients of the outputs, each times its weight, by the inputs."""
        with enable_grad():
            if state.batching is not None:
                if state.batching is not self.batching:
                    state.batching.refuse("gradients of a function that was called outside")
                return state.batching.gradients(self._gradients, outputs, self.xs, weights)
            return self._gradients(outputs, self.xs, weights)

    def _gradients(self, outputs: tuple, inputs: tuple, weights: Any) -> tuple:
        return zeros_for_none(gradients(outputs, inputs, weights, create_graph=self.deep), inputs)

    def _leads_out(self) -> bool:
        """Whether the outputs depend on a leaf that is not this level's own."""
        own, visited = {id(x) for x in self.xs}, set()
        waiting = [edge for y in self.ys if (edge := edge_of(y)) not in (None, LEAF)]
        while waiting:
            target = waiting.pop()[0]
            if isinstance(target, Tensor):
                if id(target) not in own:
                    return True
            elif target is not None and id(target) not in visited:
                visited.add(id(target))
                waiting += [edge for edge in target.edges if edge is not None]
        return False

    def done(self, tree: Any) -> Any:
        """Results for the caller: outside every graph, unless the level stands in one."""
        if self.deep:
            return tree
        return _like(tree, [x.detach() if isinstance(x, Tensor) else x for x in _leaves(tree)])

    def inputs(self, found: Any) -> Any:
        """One value per tensor of the arguments that are differentiated by, as these are nested."""
        nested = _like(self.chosen, found)
        return nested[0] if self.single else nested

    def pair(self, first: Any, second: Any, has_aux: bool) -> tuple:
        """(first, second), and aux where the function has one."""
        result = (self.done(first), self.done(second))
        return (*result, self.done(self.aux)) if has_aux else result


def grad_and_value(
    func: Callable[P, R], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[P, tuple[Any, R]]:
    """A function that returns the gradient of `func` by the arguments `argnums`, and func's own result, a scalar.

    has_aux: func returns (result, aux); the value is that pair.

    >>> import tdt
    >>> tdt.func.grad_and_value(lambda x: (x**2).sum())(tdt.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    def both(*args: Any, **kwargs: Any) -> tuple:
        level = _Level(func, args, kwargs, argnums, has_aux)
        y = level.out
        if not isinstance(y, Tensor) or y.ndim:
            got = f"tensor with {y.ndim} dims" if isinstance(y, Tensor) else str(type(y))
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got {got}. Maybe you wanted to use "
                "the vjp or jacrev APIs instead?"
            )
        found = level.gradients((y,))
        slope, value = level.done(level.inputs(found)), level.done(y)
        return slope, (value, level.done(level.aux)) if has_aux else value

    return both


def grad(func: Callable[P, Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """A function that returns the gradient of `func`, whose result is a scalar, by the arguments `argnums`.

    >>> import tdt
    >>> tdt.func.grad(tdt.func.grad(lambda x: x**3))(tdt.tensor(2.0))
    tensor(12.)
    """

    def slope(*args: Any, **kwargs: Any) -> Any:
        found, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return slope


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple:
    """`func(*primals)`, and a function that gives the product of a vector, nested as the result, with the Jacobian.

    >>> import tdt
    >>> value, product = tdt.func.vjp(lambda x: x**2, tdt.tensor([1.0, 2.0]))
    >>> value, product(tdt.tensor([1.0, 10.0]))
    (tensor([1., 4.]), (tensor([ 2., 40.]),))
    """
    level = _Level(func, primals, {}, range(len(primals)), has_aux)

    def product(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        leaves = _leaves(cotangents)
        if [getattr(g, "shape", None) for g in leaves] != [y.shape for y in level.ys]:
            raise RuntimeError("Expected the cotangents to have the structure and shapes of the primal output")
        level.deep = level.deep or (state.grad and any(g.requires_grad for g in leaves))
        return level.done(level.inputs(level.gradients(tuple(level.ys), leaves)))

    return (level.done(level.out), product, level.done(level.aux)) if has_aux else (level.done(level.out), product)


def jvp(func: Function, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """`func(*primals)`, and the product of the Jacobian with `tangents`, which are nested as the primals.

    >>> import tdt
    >>> tdt.func.jvp(lambda x: x**2, (tdt.tensor([1.0, 2.0]),), (tdt.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to be tuples")
    level = _Level(func, primals, {}, range(len(primals)), has_aux)
    leaves = tuple(_leaves(tangents))
    if [getattr(t, "shape", None) for t in leaves] != [x.shape for x in level.xs]:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same structure and shapes"
        )
    level.deep = level.deep or (state.grad and any(t.requires_grad for t in leaves))
    with enable_grad():
        strict_name = "The output of the function" if strict else ""
        found = forward_product(tuple(level.ys), level.xs, leaves, strict_name, level.deep)
    return level.pair(level.out, _like(level.out, found), has_aux)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """`func(*primals)`, and a function of tangents that gives their products with the Jacobian there.

    >>> import tdt
    >>> value, product = tdt.func.linearize(lambda x: x**2, tdt.tensor([1.0, 2.0]))
    >>> product(tdt.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    return func(*primals), lambda *tangents: jvp(func, primals, tangents)[1]


def jacrev(func: Function, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, chunk_size: int | None = None,
           _preallocate_and_copy: bool = False) -> Function:  # fmt: skip
    """A function that returns the Jacobian of `func` by the arguments `argnums`: shape result.shape + argument.shape.

    It is computed row by row, whatever chunk_size says.

    >>> import tdt
    >>> tdt.func.jacrev(lambda x: x**2)(tdt.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        level = _Level(func, args, kwargs, argnums, has_aux)
        with enable_grad():
            found = [level.inputs(rows(y, level.xs, k, False, level.deep)) for k, y in enumerate(level.ys)]
        result = level.done(_like(level.out, found))
        return (result, level.done(level.aux)) if has_aux else result

    return jacobian


def jacfwd(
    func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """`jacrev`: tdt has no forward mode, and the result is the same.

    >>> import tdt
    >>> tdt.func.jacfwd(lambda x: x.sin())(tdt.tensor(0.0))
    tensor(1.)
    """
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """A function that returns the second derivatives of `func` by the arguments `argnums`.

    >>> import tdt
    >>> tdt.func.hessian(lambda x: (x**3).sum())(tdt.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)


def _spread(dims: Any, tree: Any, name: str, what: str) -> list[Any]:
    """One dimension per leaf of `tree`, from a number for all, or a nest of them."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(_leaves(tree))
    keys = isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys()
    lists = isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and len(dims) == len(tree)
    if not keys and not lists:
        raise ValueError(f"vmap({name}): {what}={dims} is not compatible with the structure of what it is for")
    parts = [(dims[k], tree[k]) for k in tree] if keys else list(zip(dims, tree, strict=True))
    return [d for pair in parts for d in _spread(*pair, name, what)]


def vmap(
    func: Callable[P, R],
    in_dims: int | tuple | dict | None = 0,
    out_dims: int | tuple | None = 0,
    randomness: Literal["error", "same", "different"] = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """A function that applies `func` to every entry of its arguments along `in_dims` and stacks the results.

    Args:
        in_dims: one dimension for all arguments, or nested as they are; None: the argument is passed whole.
        out_dims: position of the new dimension in the results.
        randomness: "error": refuse functions that draw random numbers; "same" or "different" numbers for each entry.
        chunk_size: has no effect.

    Ops of `func` are computed for all entries at once. It is called for each entry, after a first call for nothing, where it
    writes in place, reads values of tensors, draws random numbers, or calls `backward`, `autograd.grad` or a `Function`.
    Raises:
        RuntimeError: when `randomness` is unknown, `func` draws random numbers under "error", or there is no entry.
        ValueError: when `in_dims` or `out_dims` do not fit the arguments or results, or sizes along `in_dims` differ.

    >>> import tdt
    >>> tdt.vmap(tdt.dot)(tdt.tensor([[1.0, 2.0], [3.0, 4.0]]), tdt.ones(2, 2))
    tensor([3., 7.])
    """
    name = getattr(func, "__name__", str(func))
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, dims = _leaves(args), _spread(in_dims, args, name, "in_dims")
        size = _size_of(leaves, dims, isinstance(in_dims, int), name)
        if size and Batching.may_run():
            with contextlib.suppress(NotBatched):
                return _at_once(size, func, args, kwargs, leaves, dims, out_dims, name)
        before: Any = get_rng_state() if randomness == "same" else position()
        results = []
        for i in range(size):
            entry = [x.select(d, i) if d is not None and isinstance(x, Tensor) else x
                     for x, d in zip(leaves, dims, strict=True)]  # fmt: skip
            if randomness == "same":
                set_rng_state(before)
            results.append(func(*_like(args, entry), **kwargs))
            if randomness == "error" and moved_since(before):
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                    "randomness flags on vmap or perform the randomness operation out of vmap"
                )
        return _stacked(results, out_dims, name)

    return mapped


def _size_of(leaves: list[Any], dims: list[Any], one_for_all: bool, name: str) -> int:
    """The number of entries; ValueError for arguments that do not fit their dimensions."""
    sizes = set()
    for x, d in zip(leaves, dims, strict=True):
        if d is None or (one_for_all and not isinstance(x, Tensor)):
            continue
        if not isinstance(x, Tensor):
            raise ValueError(f"vmap({name}): Got in_dim={d} for an input of type {type(x)}; use None for it")
        if not -x.ndim <= d < x.ndim:
            raise ValueError(f"vmap({name}): Got in_dim={d} for an input of dimensionality {x.ndim}")
        sizes.add(x.shape[d])
    if len(sizes) != 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sorted(sizes)} for the mapped dimension" if sizes else f"vmap({name}): at least one input must be mapped"
        )  # fmt: skip
    return sizes.pop()


def _at_once(
    size: int, func: Function, args: tuple, kwargs: dict, leaves: list, dims: list, out_dims: Any, name: str
) -> Any:
    """What `vmap` returns, computed for all entries at once.

    Raises:
        NotBatched: when the function has to run for each entry.
    """
    batching = Batching(size, (func, args, kwargs))
    entry = []
    for x, d in zip(leaves, dims, strict=True):
        if d is None or not isinstance(x, Tensor):
            entry.append(x)
        else:
            entry.append(x.select(d, 0))
            batching.add(entry[-1], x.movedim(d, 0))
    before = position()
    try:
        result = batching.run(func, *_like(args, entry), **kwargs)
        places = _spread(out_dims, result, name, "out_dims")
        outputs = []
        for y, d in zip(_leaves(result), places, strict=True):
            if not isinstance(y, Tensor):
                batching.refuse("a result is no tensor")
            outputs.append(y if d is None else batching.expanded(y).movedim(0, d).clone())
    finally:
        if moved_since(before):
            batching.refuse("random numbers were drawn")
    if batching.refused:
        batching.refuse("something that the function caught")
    return _like(result, outputs)


def _stacked(results: list, out_dims: Any, name: str) -> Any:
    if not results:
        raise RuntimeError(f"vmap({name}): there is no entry along the mapped dimension")
    dims = _spread(out_dims, results[0], name, "out_dims")
    outputs = []
    for column, d in zip(zip(*map(_leaves, results), strict=True), dims, strict=True):
        if not isinstance(column[0], Tensor):
            raise ValueError(f"vmap({name}): `{name}` must only return Tensors, got type {type(column[0])}.")
        outputs.append(column[0] if d is None else stack(column, d))
    return _like(results[0], outputs)

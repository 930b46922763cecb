"""Saved-tensor hooks: `saved_tensors_hooks`, `save_on_cpu`; checkpointing is built on them.

A node has a list of (array, storage, version). `Packed` replaces the list and unpacks each triple when it is accessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tdt import _backend
from tdt._core.mode import _Mode, no_grad, state
from tdt._core.tensor import Storage, Tensor, alias
from tdt.autograd._dispatch import apply

Saved = tuple[Any, Any, int]


class Saving:
    """A `with` block in which `keep(node)` is called for every node that has kept something. The innermost block counts."""

    outer: Any = None  # the handler that sees the ops next
    _entered: tuple[_Mode, ...] = ()

    def __enter__(self) -> Any:
        around = state.saving
        self.outer = state.handler if around is None else around.outer
        self._entered += (_Mode(handler=self._handle, saving=self),)
        self._entered[-1].__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        *rest, last = self._entered
        self._entered = tuple(rest)
        last.__exit__(*exc)

    def _handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        with _Mode(handler=self.outer):
            result = apply(op, operands, attributes, target)
        self.keep_of(result)
        return result

    def keep_of(self, result: Any) -> None:
        """Call `keep` for the node that has recorded a call with this result, a tensor or a tuple of them."""
        for t in result if isinstance(result, tuple) else (result,):
            node = t._edge and t._edge[0]
            if node is not None:
                if node.saved or node.aux is not None:
                    self.keep(node)
                break

    def keep(self, node: Any) -> None:
        """Take over what `node` keeps.

        Raises:
            NotImplementedError: unless a subclass defines it.
        """
        raise NotImplementedError


class Packed(list):
    """What `pack` made of the arrays that a node kept; iterated over, it gives what `unpack` makes of that."""

    def __init__(self, saved: Any, hooks: saved_tensors_hooks):
        self.hooks = hooks
        super().__init__(self._packed(s) for s in saved)

    def _packed(self, saved: Saved) -> tuple:
        array, storage, _ = saved
        if not _backend.is_array(array):
            return False, saved
        t = alias(array, None, storage)
        version = storage.version
        with no_grad(), _Mode(handler=self.hooks.outer, saving=None):
            packed = self.hooks.pack_hook(t)
        if t._st.version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be "
                "modified by in-place operations; let it work on a clone()."
            )
        return True, packed

    def __iter__(self) -> Iterator[Saved]:
        for is_packed, value in super().__iter__():
            if not is_packed:
                yield value
                continue
            t = self.hooks.unpack_hook(value)
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(t).__name__}"
                )
            yield t._a, t._st, t._st.version

    def __setitem__(self, i: Any, saved: Any) -> None:
        super().__setitem__(i, self._packed(saved))


class saved_tensors_hooks(Saving):
    """In this block, what ops keep for backward is what `pack_hook(tensor)` returns; backward gets `unpack_hook` of it.

    Of nested blocks the innermost counts. pack_hook must not keep its argument's graph; it gets a detached tensor.

    >>> import tdt
    >>> x = tdt.tensor([1.5, 2.5], requires_grad=True)
    >>> with tdt.autograd.graph.saved_tensors_hooks(lambda t: t.to(tdt.float16), lambda t: t.to(tdt.float32)):
    ...     y = x * x
    >>> y.sum().backward(); x.grad
    tensor([3., 5.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> Any:
        if state.saving_refused:
            raise RuntimeError(state.saving_refused)
        return super().__enter__()

    def keep(self, node: Any) -> None:
        """Pack what `node` keeps."""
        node.saved = Packed(node.saved, self)


class save_on_cpu(saved_tensors_hooks):
    """In this block, what ops keep for backward lies in the host's memory, and comes back to its device when needed.

    >>> import tdt
    >>> x = tdt.ones(2, requires_grad=True)
    >>> with tdt.autograd.graph.save_on_cpu():
    ...     y = x.exp().sum()
    >>> y.backward(); x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks(_Mode):
    """In this block `saved_tensors_hooks` and `save_on_cpu` raise a RuntimeError that says `error_message`.

    >>> import tdt
    >>> with tdt.autograd.graph.disable_saved_tensors_hooks("not here"), tdt.autograd.graph.save_on_cpu():
    ...     pass
    Traceback (most recent call last):
    RuntimeError: not here
    """

    def __init__(self, error_message: str):
        super().__init__(saving_refused=error_message)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """In this block, what ops keep for backward may be written to afterwards: they keep copies.

    >>> import tdt
    >>> x = tdt.ones(2, requires_grad=True)
    >>> with tdt.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y**2).sum()
    ...     y = y.sin_()
    ...     z.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__(_copied, lambda packed: packed)

    def __enter__(self) -> Any:
        if isinstance(state.saving, allow_mutation_on_saved_tensors):
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        return super().__enter__()


def _copied(t: Tensor) -> Tensor:
    return alias(_backend.copied(t._a), None, Storage())

"""Results and arguments as a form and the tensors in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._compiled.program import Refusal
from tdt._core.tensor import Tensor

PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
TENSOR, ROOT = object(), object()


class Structure:
    """A value made of tuples, lists, dictionaries, named tuples and plain values, with tensors in it.

    Attributes:
        form: nested tuples (type, keys, forms); (TENSOR, k) for tensor k, (ROOT, k) for one that is a root itself.
        tensors: the tensors, without the roots, each once.
    """

    def __init__(self, value: Any, roots: Sequence[Tensor]):
        self.tensors: list[Tensor] = []
        self._roots = {id(t): k for k, t in enumerate(roots)}
        self._places: dict[int, int] = {}
        self.form = self._form(value)

    def _form(self, value: Any) -> Any:
        kind = value.__class__
        if kind is Tensor or isinstance(value, Tensor):
            if id(value) in self._roots:
                return ROOT, self._roots[id(value)]
            if kind is not Tensor:
                raise Refusal(f"a result is a {kind.__name__}")
            if id(value) not in self._places:
                self._places[id(value)] = len(self.tensors)
                self.tensors.append(value)
            return TENSOR, self._places[id(value)]
        if kind in PLAIN:
            return None, value
        if kind is dict:
            return kind, tuple(value), tuple(map(self._form, value.values()))
        if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_make")):
            return kind, None, tuple(map(self._form, value))
        raise Refusal(f"a result is a {kind.__name__}")

    def filled(self, tensors: Sequence[Tensor], roots: Sequence[Tensor]) -> Any:
        """A value of this form."""
        return _filled(self.form, tensors, roots)


def _filled(form: Any, tensors: Sequence[Tensor], roots: Sequence[Tensor]) -> Any:
    kind, what = form[0], form[1]
    if kind is TENSOR:
        return tensors[what]
    if kind is ROOT:
        return roots[what]
    if kind is None:
        return what
    items = [_filled(each, tensors, roots) for each in form[2]]
    if kind is dict:
        return dict(zip(what, items, strict=True))
    return items if kind is list else tuple(items) if kind is tuple else kind._make(items)

"""Views of small calls: arrays expanded without NumPy's `broadcast_to`, and the tensors around views, filled in one call.

To fill the slots of a tensor and of its View takes Python as long as NumPy takes for the view.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import CLASS, NEW_FROM_DTYPE, array_function, created
from tdt._kernels._code import Code, Value, built_in
from tdt._kernels._native import linked
from tdt._kernels._quick import DTYPE, FLAGS, NDIM, SHAPE, STRIDES
from tdt._kernels._references import place_of

EXPAND, WRAP = "tdt_expand", "tdt_wrap_view"
BASE = STRIDES + 8  # where an array has the address of its base
SET_BASE = 282  # the place of `PyArray_SetBaseObject` in NumPy's C API
WRITABLE = 0x400  # NumPy's flag
MOST_DIMS = 32
VERSION, EMPTY = sys.intern("version"), ""
# Words of `self`, of both functions; of `view_wrapper`: objects, where tensors have their attributes, where Views have them.
ARRAY, NONE, TUPLE, NEW, SET = range(5)
TENSOR, VIEW, NAME, ROOT = range(2, 6)
A, STORAGE, EDGE, RELATION, GRAD = range(6, 11)
BASE_TENSOR, SOURCE, STEP, AT, META, BASE_ARRAY = range(11, 17)
TENSOR_SLOTS = ("_a", "_st", "_edge", "_view", "_grad")
VIEW_SLOTS = ("base", "source", "step", "version", "creation_meta", "base_array")


@functools.cache
def expand() -> Callable[[Any, Any], np.ndarray | None]:
    """`(array, shape)`: the view of an array with dimensions of size 1 repeated; None unless the shape is a tuple that fits."""
    words = [*map(id, (np.ndarray, None, tuple)), array_function(NEW_FROM_DTYPE), array_function(SET_BASE)]
    [function] = linked("expand", [EXPAND], lambda: built_in(EXPAND, _write_expand), optimize=True, vectorize=False)
    return created(EXPAND, function, struct.pack(f"={len(words)}q", *words))


@functools.cache
def view_wrapper(kind: type, view: type) -> Callable[[Any, Any, tuple, str | None], Any] | None:
    """`(x, array, step, creation_meta)`: the tensor around an array that is a view of x's; see `tdt._core.tensor.View`.

    It returns None for an array of another memory, and for empty ones. None, too, where it is not known where tensors of this
    class and their Views have their attributes.

    Args:
        creation_meta: of the call; None for that of `x`.
    """
    places = [*[place_of(kind, name) for name in TENSOR_SLOTS], *[place_of(view, name) for name in VIEW_SLOTS]]
    if None in places:
        return None
    words = [*map(id, (np.ndarray, None, kind, view, VERSION, EMPTY)), *places]
    [function] = linked("wrapped-view", [WRAP], lambda: built_in(WRAP, _write_wrapper), optimize=True, vectorize=False)
    return created(WRAP, function, struct.pack(f"={len(words)}q", *words))


def _number(value: Value) -> Value:
    """An object's address."""
    return value.code.cast(value, "i64")


def _field(kind: str, owner: Value, place: Any) -> Value:
    """What an object has at a place."""
    return owner.code.load(kind, owner.code.at("i8", owner, place))


def _leave(test: Value, result: Value, *owned: Value) -> None:
    """Return a new reference to an object where a test holds, or an error for the address 0; give up those to `owned`."""
    code = test.code
    with code.when(test):
        for each in owned:
            code.procedure("Py_DecRef", each)
        code.procedure("Py_IncRef", result)  # which does nothing for 0
        code.lines.append(f"  ret ptr {result.name}")
        code.place(code.label())


def _write_expand(code: Code, word: Callable[[Any], Value], arguments: Value, *rest: Value) -> None:
    array, target = (code.load("ptr", arguments, k) for k in range(2))
    none, nothing = (code.cast(value, "ptr") for value in (word(NONE), code.value(0, "i64")))
    _leave((_field("i64", array, CLASS) != word(ARRAY)) | (_field("i64", target, CLASS) != word(TUPLE)), none)
    count = code.function("PyTuple_Size", "i64", target)
    extra = count - code.cast(_field("i32", array, NDIM), "i64")
    _leave((extra < 0) | (count > MOST_DIMS), none)
    sizes, steps = (code.array("i64", MOST_DIMS) for _ in range(2))
    shape, strides = (_field("ptr", array, place) for place in (SHAPE, STRIDES))
    with code.loop(0, count) as d:
        size = code.function("PyLong_AsLongLong", "i64", code.function("PyTuple_GetItem", "ptr", target, d))
        _leave(size < 0, code.select(_number(code.function("PyErr_Occurred", "ptr")) == 0, none, nothing))
        step = code.variable("i64", 0)
        with code.when(d >= extra):
            old = code.load("i64", shape, d - extra)
            _leave((old != 1) & (old != size), none)
            step.set(code.select(old == size, code.load("i64", strides, d - extra), 0))
        code.store(size, sizes, d)
        code.store(step.get(), steps, d)
    dtype, data = _field("ptr", array, DTYPE), _field("ptr", array, ADDRESS)
    flags = _field("i32", array, FLAGS) & WRITABLE
    code.procedure("Py_IncRef", dtype)  # the new array's reference
    parameters = (code.cast(word(ARRAY), "ptr"), dtype, code.cast(count, "i32"), sizes, steps, data, flags, nothing)
    new, set_base = (code.cast(word(k), "ptr").name for k in (NEW, SET))
    out = code.new("ptr", f"call ptr {new}({', '.join(f'{p.kind} {p.name}' for p in parameters)})")
    _leave(_number(out) == 0, nothing)
    code.procedure("Py_IncRef", array)  # the base's, also where this fails
    failed = code.new("i32", f"call i32 {set_base}(ptr {out.name}, ptr {array.name})") != 0
    _leave(failed, nothing, out)
    code.lines.append(f"  ret ptr {out.name}")


def _write_wrapper(code: Code, word: Callable[[Any], Value], arguments: Value, *rest: Value) -> None:
    x, array, step, meta = (code.load("ptr", arguments, k) for k in range(4))
    none, nothing = (code.cast(value, "ptr") for value in (word(NONE), code.value(0, "i64")))
    own = _field("ptr", x, CLASS)
    with code.when(_number(own) != word(TENSOR)):
        _leave(code.function("PyType_IsSubtype", "i32", own, code.cast(word(TENSOR), "ptr")) == 0, none)
    a = _field("ptr", x, word(A))
    _leave(_number(a) == 0, none)
    _leave((_field("i64", a, CLASS) != word(ARRAY)) | (_field("i64", array, CLASS) != word(ARRAY)), none)
    memory = _field("i64", array, BASE)
    shares = (
        (memory == _number(a)) | ((memory != 0) & (memory == _field("i64", a, BASE))) | (_number(array) == _number(a))
    )
    empty, shape = code.variable("i1", ~shares), _field("ptr", a, SHAPE)
    with code.loop(0, code.cast(_field("i32", a, NDIM), "i64")) as d:
        empty.set(empty.get() | (code.load("i64", shape, d) == 0))
    _leave(empty.get(), none)

    storage, source = _field("ptr", x, word(STORAGE)), _field("ptr", x, word(RELATION))
    version = code.function("PyObject_GetAttr", "ptr", storage, code.cast(word(NAME), "ptr"))
    _leave(_number(version) == 0, nothing)
    view = code.function("PyType_GenericAlloc", "ptr", code.cast(word(VIEW), "ptr"), code.value(0, "i64"))
    _leave(_number(view) == 0, nothing, version)
    out = code.function("PyType_GenericAlloc", "ptr", code.cast(word(TENSOR), "ptr"), code.value(0, "i64"))
    _leave(_number(out) == 0, nothing, version, view)

    base, base_array, inherited = (code.variable("ptr", v) for v in (x, a, code.cast(word(ROOT), "ptr")))
    with code.when(_number(source) != word(NONE)):
        for variable, place in ((base, BASE_TENSOR), (base_array, BASE_ARRAY), (inherited, META)):
            variable.set(_field("ptr", source, word(place)))
    with code.when(_number(meta) != word(NONE)):
        inherited.set(meta)
    filled = (
        (view, BASE_TENSOR, base.get()), (view, BASE_ARRAY, base_array.get()), (view, META, inherited.get()),
        (view, SOURCE, source), (view, STEP, step), (view, AT, version), (out, RELATION, view), (out, A, array),
        (out, STORAGE, storage), (out, EDGE, none), (out, GRAD, none),
    )  # fmt: skip
    for owner, place, value in filled:
        if value is not version and value is not view:  # of which this function has references
            code.procedure("Py_IncRef", value)
        code.store(value, code.at("i8", owner, word(place)))
    code.lines.append(f"  ret ptr {out.name}")

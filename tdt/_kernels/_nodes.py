"""The tensor around an op's result, and the node of the graph that records the call, created in machine code.

In Python both take longer than an op of a few elements does.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._builtin import CLASS
from tdt._kernels._builtin_code import DTYPE, NDIM, SHAPE, BuiltIn, linked_built_in
from tdt._kernels._code import Value, Variable
from tdt._kernels._references import place_of

FINISH = "tdt_finish"
MOST_OPERANDS = 16
# Attributes whose places in objects are words of `self`, by the name of the class.
SLOTS = {
    "tensor": ("_a", "_st", "_edge", "_view", "_grad"),
    "view": ("base", "version"),
    "plan": ("backward_plans",),
    "backward_plan": ("keep_operands", "keep_outputs", "has_rule", "dtype", "multiple_outputs", "broadcasts", "needs_shapes",
                      "needs_dtypes"),
    "node": ("backward_plan", "edges", "saved", "shapes", "dtypes", "attributes", "aux", "number", "hooks", "outs", "call"),
}  # fmt: skip
OBJECTS = {"array": np.ndarray, "none": None, "true": True, "false": False, "zero": 0, "tuple": tuple}
STRINGS = {name: sys.intern(name) for name in ("version", "inference", "shape", "dtype")}
PASSED = ("tensor", "storage", "node", "leaf", "numbers", "otherwise")
WORDS = [*OBJECTS, *STRINGS, *PASSED, *(f"{owner}.{name}" for owner, names in SLOTS.items() for name in names)]
PLACES = {name: place for place, name in enumerate(WORDS)}
OP, PLAN, OPERANDS, ARRAYS, ATTRIBUTES, RESULT, AUX, CALL = range(8)
EQUAL = 2  # Python's `Py_EQ`


def finisher(
    classes: dict[str, type], leaf: tuple, numbers: itertools.count, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """`tdt.autograd._record.finish` for NumPy's arrays.

    Args:
        classes: those in `SLOTS`, and of storages.
        leaf: the edge of a leaf.
        numbers: gives each node's number.
        otherwise: takes the calls that the function does not take.
    """
    places = [place_of(classes[owner], name) for owner, names in SLOTS.items() for name in names]
    if None in places:
        return otherwise
    found = {**classes, "leaf": leaf, "numbers": numbers, "otherwise": otherwise}
    _alive.append(found)
    words = [*map(id, (*OBJECTS.values(), *STRINGS.values(), *[found[name] for name in PASSED])), *places]
    return linked_built_in("finish", FINISH, _Finish, words)


_alive: list[Any] = []  # whose addresses are in the bytes of built-in functions


class _Finish(BuiltIn):
    """The function that finishes a call.

    Attributes:
        argument: the arguments.
        result: the result's array; `out`: the tensor around it; `is_wrapped`: whether that is an argument.
        n, edges, mask: how many operands there are, where their gradients go, 0 for nowhere, and which have one.
        back: the call's backward plan.
    """

    argument: list[Value]
    is_wrapped: Value
    result: Value
    n: Value
    edges: Value
    mask: Variable
    back: Value
    out: Value

    def write(self) -> None:
        code = self.code
        self.leave_to_python((self.count != CALL + 1) | (code.cast(self.keywords, "i64") != 0))
        self.argument = [code.load("ptr", self.arguments, k) for k in range(CALL + 1)]
        self.find_result()
        self.mask, self.edges = code.variable("i64", 0), code.array("i64", MOST_OPERANDS)
        self.leave_to_python(self.class_of(self.argument[OPERANDS]) != self.object("tuple"))
        self.n = code.function("PyTuple_Size", "i64", self.argument[OPERANDS])
        self.leave_to_python(self.n > MOST_OPERANDS)
        recorded = self.address(self.argument[PLAN]) != self.object("none")
        with code.when(recorded):
            self.find_edges()
        back = code.variable("ptr", self.none())
        with code.when(self.mask.get() != 0):
            back.set(self.backward_plan())
        self.back = back.get()
        out = code.variable("ptr", self.argument[RESULT])
        code.choose(self.is_wrapped, lambda: self.owned(self.argument[RESULT]), lambda: out.set(self.wrapped()))
        self.out = out.get()
        with code.when(self.mask.get() != 0):
            self.record()
        self.end(self.out)

    def find_result(self) -> None:
        """Leave other results than arrays and tensors around them to Python."""
        code, result = self.code, self.argument[RESULT]
        self.is_wrapped = self.class_of(result) == self.object("tensor")
        array = code.variable("ptr", result)
        with code.when(self.is_wrapped):
            array.set(self.slot(result, "tensor._a"))
        self.result = array.get()
        self.leave_to_python(self.class_of(self.result) != self.object("array"))

    def find_edges(self) -> None:
        """Find out where the operands' gradients go. A view is left to Python if its edge is outdated or nowhere."""
        code = self.code
        with code.loop(0, self.n) as k:
            x = self.item(self.argument[OPERANDS], k)
            code.store(code.value(0, "i64"), self.edges, k)
            with code.when(self.is_tensor(x)):
                edge, view = self.slot(x, "tensor._edge"), self.slot(x, "tensor._view")
                with code.when(self.address(view) != self.object("none")):
                    self.check_view(x, view, edge)
                with code.when(self.address(edge) != self.object("none")):
                    code.store(self.address(edge), self.edges, k)
                    self.mask.set(self.mask.get() | (code.value(1, "i64") << k))

    def check_view(self, x: Value, view: Value, edge: Value) -> None:
        """See `find_edges`."""
        code = self.code
        version = self.attribute(self.slot(x, "tensor._st"), "version")
        known, how = self.slot(view, "view.version"), code.value(EQUAL, "i32")
        same = code.function("PyObject_RichCompareBool", "i32", version, known, how)
        self.call_void("Py_DecRef", version)
        base_edge = self.slot(self.slot(view, "view.base"), "tensor._edge")
        nowhere = (self.address(edge) == self.object("none")) & (self.address(base_edge) != self.object("none"))
        self.leave_to_python((same != 1) | nowhere)

    def backward_plan(self) -> Value:
        """The backward plan for operands with gradients. Python makes it, and finds the first result's dtype."""
        code = self.code
        key = code.function("PyLong_FromLongLong", "ptr", self.mask.get())
        back = code.function("PyDict_GetItem", "ptr", self.slot(self.argument[PLAN], "plan.backward_plans"), key)
        self.call_void("Py_DecRef", key)
        self.leave_to_python(self.address(back) == 0)
        other = self.address(self.slot(back, "backward_plan.dtype")) != self.field("i64", self.result, DTYPE)
        usual = self.holds(back, "backward_plan.has_rule") & ~self.holds(back, "backward_plan.multiple_outputs")
        self.leave_to_python(other | ~usual)
        return back

    def wrapped(self) -> Value:
        """A new tensor around the result."""
        out = self.new("tensor")
        self.fill(out, "tensor._a", self.owned(self.result))
        self.fill(out, "tensor._st", self.untracked(self.new("storage")))
        for name in ("_edge", "_view", "_grad"):
            self.fill(out, f"tensor.{name}", self.owned(self.none()))
        return out

    def record(self) -> None:
        """Create the node, and set it as the tensor's place in the graph."""
        code, back = self.code, self.back
        node = self.new("node")
        self.fill(node, "node.backward_plan", self.owned(back))
        for name in ("hooks", "outs"):
            self.fill(node, f"node.{name}", self.owned(self.none()))
        for name, place in (("attributes", ATTRIBUTES), ("aux", AUX), ("call", CALL)):
            self.fill(node, f"node.{name}", self.owned(self.argument[place]))
        self.fill(node, "node.saved", self.saved(node))
        self.fill(node, "node.number", code.function("PyIter_Next", "ptr", self.pointer("numbers")))
        self.fill(node, "node.edges", self.all_edges())
        shapes = self.holds(back, "backward_plan.needs_shapes") | self.is_broadcast()
        self.fill(node, "node.shapes", self.of_arrays(shapes, "shape", lambda: self.tuple_of()))
        dtypes = self.holds(back, "backward_plan.needs_dtypes")
        self.fill(node, "node.dtypes", self.of_arrays(dtypes, "dtype", lambda: self.owned(self.none())))
        place = code.at("i8", self.out, self.object("tensor._edge"))
        before = code.load("ptr", place)
        code.store(self.tuple_of(node, self.owned(self.pointer("zero"))), place)
        self.call_void("Py_DecRef", before)

    def saved(self, node: Value) -> Value:
        """The list of what the node saves: (array, storage, version)."""
        code = self.code
        operands, outputs = (self.slot(self.back, f"backward_plan.keep_{name}") for name in ("operands", "outputs"))
        count = code.function("PyTuple_Size", "i64", operands)
        total = count + code.function("PyTuple_Size", "i64", outputs)
        found = code.variable("ptr")
        code.choose(
            total == 0,
            lambda: found.set(self.tuple_of()),
            lambda: found.set(self.untracked(self.created_by("PyList_New", total))),
        )
        saved = found.get()
        with code.loop(0, count) as k:
            place = code.function("PyLong_AsLongLong", "i64", self.item(operands, k))
            x, triple = self.item(self.argument[OPERANDS], place), code.variable("ptr")
            code.choose(
                self.is_tensor(x),
                lambda x=x, place=place: triple.set(self.tensor_saved(x, self.array(place), node, saved, self.out)),
                lambda x=x: triple.set(
                    self.tuple_of(self.owned(x), *map(self.owned, (self.none(), self.pointer("zero"))))
                ),
            )
            code.function("PyList_SetItem", "i32", saved, k, triple.get())
        with code.loop(count, total) as k:
            triple = self.tensor_saved(self.out, self.owned(self.result), node, saved, self.out)
            code.function("PyList_SetItem", "i32", saved, k, triple)
        return saved

    def tensor_saved(self, x: Value, array: Value, *owned: Value) -> Value:
        """(array, storage, version) of a tensor. Python refuses to save one of inference mode."""
        storage = self.slot(x, "tensor._st")
        inference = self.attribute(storage, "inference")
        self.call_void("Py_DecRef", inference)  # True or False
        self.leave_to_python(self.address(inference) != self.object("false"), array, *owned)
        return self.untracked(self.tuple_of(array, self.owned(storage), self.attribute(storage, "version")))

    def all_edges(self) -> Value:
        """The tuple of the operands' edges; that of a leaf is (leaf, 0)."""
        code, edges = self.code, self.created_by("PyTuple_New", self.n)
        with code.loop(0, self.n) as k:
            edge, found = code.load("i64", self.edges, k), code.variable("ptr", self.none())
            with code.when(edge != 0):
                found.set(code.cast(edge, "ptr"))
            is_leaf = edge == self.object("leaf")
            with code.when(is_leaf):
                x = self.owned(self.item(self.argument[OPERANDS], k))
                found.set(self.tuple_of(x, self.owned(self.pointer("zero"))))
            with code.when(~is_leaf):
                self.owned(found.get())
            code.function("PyTuple_SetItem", "i32", edges, k, found.get())
        return edges

    def is_broadcast(self) -> Value:
        """Whether operands of an op that broadcasts were of several shapes; of other numbers than two it is not asked."""
        code = self.code
        found = code.variable("i1", self.holds(self.back, "backward_plan.broadcasts"))
        with code.when(found.get() & (self.n == 2)):
            a, b = (self.array(code.value(k, "i64")) for k in range(2))
            for each in (a, b):
                self.call_void("Py_DecRef", each)  # the call's arguments have references
            are_arrays = (self.class_of(a) == self.object("array")) & (self.class_of(b) == self.object("array"))
            found.set(are_arrays)
            with code.when(are_arrays):
                rank = self.field("i32", a, NDIM)
                found.set(rank != self.field("i32", b, NDIM))
                shapes = [self.field("ptr", each, SHAPE) for each in (a, b)]
                with code.loop(0, code.select(found.get(), 0, code.cast(rank, "i64"))) as d:
                    one, other = (code.load("i64", shape, d) for shape in shapes)
                    found.set(found.get() | (one != other))
        return found.get()

    def of_arrays(self, needed: Value, name: str, otherwise: Callable[[], Value]) -> Value:
        """The tuple of an attribute of all arrays, `otherwise` of numbers; None unless needed."""
        code, found = self.code, self.code.variable("ptr", self.none())
        with code.when(needed):
            found.set(self.created_by("PyTuple_New", self.n))
            with code.loop(0, self.n) as k:
                array, each = self.array(k), code.variable("ptr")
                has = code.function("PyObject_HasAttr", "i32", array, self.pointer(name)) != 0
                code.choose(
                    has, lambda array=array: each.set(self.attribute(array, name)), lambda: each.set(otherwise())
                )
                self.call_void("Py_DecRef", array)
                code.function("PyTuple_SetItem", "i32", found.get(), k, each.get())
        with code.when(~needed):
            self.owned(found.get())
        return found.get()

    # Objects. What is created, and `owned`, is a reference that something has to take.

    def object(self, name: str) -> Value:
        """The word that `WORDS` names."""
        return self.word(PLACES[name])

    def pointer(self, name: str) -> Value:
        """The object that `WORDS` names."""
        return self.code.cast(self.object(name), "ptr")

    def none(self) -> Value:
        """None."""
        return self.pointer("none")

    def address(self, value: Value) -> Value:
        """An object's address."""
        return self.code.cast(value, "i64")

    def class_of(self, value: Value) -> Value:
        """The address of an object's class."""
        return self.field("i64", value, CLASS)

    def is_tensor(self, value: Value) -> Value:
        """Whether an object is a tensor, of a subclass too."""
        code, found = self.code, self.code.variable("i1", self.class_of(value) == self.object("tensor"))
        with code.when(~found.get()):
            kind = code.cast(self.class_of(value), "ptr")
            found.set(code.function("PyType_IsSubtype", "i32", kind, self.pointer("tensor")) != 0)
        return found.get()

    def slot(self, owner: Value, name: str) -> Value:
        """An attribute of an object of ours."""
        return self.field("ptr", owner, self.object(name))

    def holds(self, owner: Value, name: str) -> Value:
        """Whether such an attribute is True."""
        return self.address(self.slot(owner, name)) == self.object("true")

    def fill(self, owner: Value, name: str, value: Value) -> None:
        """Set such an attribute of a new object."""
        self.code.store(value, self.code.at("i8", owner, self.object(name)))

    def item(self, values: Value, k: Value) -> Value:
        """An item of a tuple."""
        return self.code.function("PyTuple_GetItem", "ptr", values, k)

    def array(self, k: Value) -> Value:
        """The operand's array or number, owned."""
        return self.code.function("PySequence_GetItem", "ptr", self.argument[ARRAYS], k)

    def attribute(self, owner: Value, name: str) -> Value:
        """An attribute of an object, owned."""
        return self.created_by("PyObject_GetAttr", owner, self.pointer(name))

    def owned(self, value: Value) -> Value:
        """An object with one more reference."""
        self.call_void("Py_IncRef", value)
        return value

    def untracked(self, container: Value) -> Value:
        """A container that leads to arrays and numbers alone, so to no cycle: the garbage collector need not look at it."""
        self.call_void("PyObject_GC_UnTrack", container)
        return container

    def new(self, kind: str) -> Value:
        """An object of a class, without attributes."""
        return self.created_by("PyType_GenericAlloc", self.pointer(kind), self.code.value(0, "i64"))

    def created_by(self, name: str, *args: Value) -> Value:
        """What a function of Python's creates. Without memory for it, the function returns with Python's error."""
        found = self.code.function(name, "ptr", *args)
        with self.code.when(self.address(found) == 0):
            self.leave(found)
        return found

    def tuple_of(self, *values: Value) -> Value:
        """A tuple that takes the objects."""
        code = self.code
        found = self.created_by("PyTuple_New", code.value(len(values), "i64"))
        for k, value in enumerate(values):
            code.function("PyTuple_SetItem", "i32", found, code.value(k, "i64"), value)
        return found

    def leave_to_python(self, test: Value, *owned: Value) -> None:
        """Return what Python code does where a test holds, and give up references."""
        code = self.code
        with code.when(test):
            for each in owned:
                self.call_void("Py_DecRef", each)
            nothing = code.cast(code.value(0, "i64"), "ptr")
            arguments = (self.pointer("otherwise"), self.arguments, self.count, nothing)
            self.leave(code.function("PyObject_Vectorcall", "ptr", *arguments))

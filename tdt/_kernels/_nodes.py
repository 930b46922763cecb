"""The tensors around an op's results, and the node of the graph that records the call, created in machine code.

In Python both take longer than an op of a few elements does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tdt._kernels._builtin_code import DTYPE, NDIM, SHAPE, linked_built_in
from tdt._kernels._code import Value, Variable
from tdt._kernels._objects import ObjectCode, words_of

FINISH = "tdt_finish"
MOST_OPERANDS = 16
OP, PLAN, OPERANDS, ARRAYS, ATTRIBUTES, RESULT, AUX, CALL = range(8)


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
    words = words_of(classes, {"leaf": leaf, "numbers": numbers, "otherwise": otherwise})
    return otherwise if words is None else linked_built_in("finish", FINISH, _Finish, words)


class _Finish(ObjectCode):
    """The function that finishes a call.

    Attributes:
        argument: the arguments.
        several: whether the result is a tuple of them; `count_of_results`: how many there are.
        n, edges, mask: how many operands there are, where their gradients go, 0 for nowhere, and which have one.
        back: the call's backward plan.
        out: the tensor around the result, or the tuple of them.
    """

    argument: list[Value]
    several: Value
    count_of_results: Value
    n: Value
    edges: Value
    mask: Variable
    back: Value
    out: Value

    def write(self) -> None:
        code = self.code
        self.leave_to_python((self.count != CALL + 1) | (code.cast(self.keywords, "i64") != 0))
        self.argument = [code.load("ptr", self.arguments, k) for k in range(CALL + 1)]
        self.find_results()
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
        self.out = self.wrapped_results()
        with code.when(self.mask.get() != 0):
            self.record()
        self.end(self.out)

    def find_results(self) -> None:
        """Leave other results than arrays and tensors around them to Python."""
        code = self.code
        self.several, count = self.class_of(self.argument[RESULT]) == self.object("tuple"), code.variable("i64", 1)
        with code.when(self.several):
            count.set(code.function("PyTuple_Size", "i64", self.argument[RESULT]))
        self.count_of_results = count.get()
        self.leave_to_python(self.count_of_results == 0)
        with code.loop(0, self.count_of_results) as k:
            self.leave_to_python(self.class_of(self.result_array(k)) != self.object("array"))

    def one_of(self, values: Value, k: Value) -> Value:
        """Item k of a tuple where there are several results, else what stands in its place."""
        found = self.code.variable("ptr", values)
        with self.code.when(self.several):
            found.set(self.item(values, k))
        return found.get()

    def result_array(self, k: Value) -> Value:
        """The array of result k."""
        result = self.one_of(self.argument[RESULT], k)
        array = self.code.variable("ptr", result)
        with self.code.when(self.class_of(result) == self.object("tensor")):
            array.set(self.slot(result, "tensor._a"))
        return array.get()

    def find_edges(self) -> None:
        """Find out where the operands' gradients go. A tensor is left to Python if its edge is outdated or nowhere."""
        code = self.code
        with code.loop(0, self.n) as k:
            x = self.item(self.argument[OPERANDS], k)
            code.store(code.value(0, "i64"), self.edges, k)
            with code.when(self.is_tensor(x)):
                edge, view = self.slot(x, "tensor._edge"), self.slot(x, "tensor._view")
                with code.when(self.address(view) != self.object("none")):
                    self.check_view(x, view, edge)
                with code.when(self.address(edge) != self.object("none")):
                    target = self.item(edge, code.value(0, "i64"))
                    self.leave_to_python(self.address(target) == self.object("none"))
                    code.store(self.address(edge), self.edges, k)
                    self.mask.set(self.mask.get() | (code.value(1, "i64") << k))

    def check_view(self, x: Value, view: Value, edge: Value) -> None:
        """See `find_edges`."""
        base_edge = self.slot(self.slot(view, "view.base"), "tensor._edge")
        nowhere = (self.address(edge) == self.object("none")) & (self.address(base_edge) != self.object("none"))
        self.leave_to_python(self.is_outdated(x, view) | nowhere)

    def backward_plan(self) -> Value:
        """The backward plan for operands with gradients. Python makes it, and finds the results' dtypes."""
        code = self.code
        key = code.function("PyLong_FromLongLong", "ptr", self.mask.get())
        back = code.function("PyDict_GetItem", "ptr", self.slot(self.argument[PLAN], "plan.backward_plans"), key)
        self.call_void("Py_DecRef", key)
        self.leave_to_python(self.address(back) == 0)
        unusual = self.holds(back, "backward_plan.multiple_outputs") != self.several
        self.leave_to_python(~self.holds(back, "backward_plan.has_rule") | unusual)
        dtypes = self.slot(back, "backward_plan.dtypes")
        self.leave_to_python(code.function("PyTuple_Size", "i64", dtypes) == 0)
        with code.loop(0, self.count_of_results) as k:
            expected, dtype = self.dtype_of(dtypes, k), self.field("i64", self.result_array(k), DTYPE)
            self.leave_to_python((expected != self.object("none")) & (expected != dtype))
        return back

    def dtype_of(self, dtypes: Value, k: Value) -> Value:
        """The address of the dtype that a backward plan has for result k; that of None if this has no gradient."""
        last = self.code.function("PyTuple_Size", "i64", dtypes) - 1
        return self.address(self.item(dtypes, self.code.minimum(k, last)))

    def wrapped_results(self) -> Value:
        """The tensor around the result, or the tuple of them."""
        code, out, each = self.code, self.code.variable("ptr", self.none()), self.code.variable("ptr")
        with code.when(self.several):
            out.set(self.created_by("PyTuple_New", self.count_of_results))
        with code.loop(0, self.count_of_results) as k:
            result = self.one_of(self.argument[RESULT], k)
            is_wrapped = self.class_of(result) == self.object("tensor")
            code.choose(is_wrapped, lambda: each.set(self.owned(result)), lambda: each.set(self.wrapped(result)))
            code.choose(
                self.several,
                lambda k=k: code.function("PyTuple_SetItem", "i32", out.get(), k, each.get()),
                lambda: out.set(each.get()),
            )
        return out.get()

    def wrapped(self, array: Value) -> Value:
        """A new tensor around an array."""
        out = self.new("tensor")
        self.fill(out, "tensor._a", self.owned(array))
        self.fill(out, "tensor._st", self.untracked(self.new("storage")))
        for name in ("_edge", "_view", "_grad"):
            self.fill(out, f"tensor.{name}", self.owned(self.none()))
        return out

    def record(self) -> None:
        """Create the node, and set it as the place of the tensors in the graph."""
        code, back = self.code, self.back
        node = self.new("node")
        self.fill(node, "node.backward_plan", self.owned(back))
        self.fill(node, "node.hooks", self.owned(self.none()))
        self.fill(node, "node.outs", self.kinds())
        for name, place in (("attributes", ATTRIBUTES), ("aux", AUX), ("call", CALL)):
            self.fill(node, f"node.{name}", self.owned(self.argument[place]))
        self.fill(node, "node.saved", self.saved(node))
        self.fill(node, "node.number", code.function("PyIter_Next", "ptr", self.pointer("numbers")))
        self.fill(node, "node.edges", self.all_edges())
        shapes = self.holds(back, "backward_plan.needs_shapes") | self.is_broadcast()
        self.fill(node, "node.shapes", self.of_arrays(shapes, "shape", lambda: self.tuple_of()))
        dtypes = self.holds(back, "backward_plan.needs_dtypes")
        self.fill(node, "node.dtypes", self.of_arrays(dtypes, "dtype", lambda: self.owned(self.none())))
        types = self.slot(back, "backward_plan.dtypes")
        with code.loop(0, self.count_of_results) as k:
            with code.when(self.dtype_of(types, k) != self.object("none")):
                self.place(self.one_of(self.out, k), node, k)
        self.call_void("Py_DecRef", node)

    def place(self, tensor: Value, node: Value, k: Value) -> None:
        """Set output k of a node as a tensor's place in the graph."""
        code, place = self.code, self.code.at("i8", tensor, self.object("tensor._edge"))
        before, number = code.load("ptr", place), self.created_by("PyLong_FromLongLong", k)
        code.store(self.tuple_of(self.owned(node), number), place)
        self.call_void("Py_DecRef", before)

    def kinds(self) -> Value:
        """What `tdt.autograd._node.kind_of` gives of each of several results; None of a single one."""
        code, found = self.code, self.code.variable("ptr", self.none())

        def fill() -> None:
            found.set(self.untracked(self.created_by("PyList_New", self.count_of_results)))
            with code.loop(0, self.count_of_results) as k:
                array = self.result_array(k)
                values = (
                    self.attribute(array, "shape"),
                    self.attribute(array, "dtype"),
                    self.owned(self.pointer("numpy")),
                )
                code.function("PyList_SetItem", "i32", found.get(), k, self.untracked(self.tuple_of(*values)))

        code.choose(self.several, fill, lambda: self.owned(found.get()))
        return found.get()

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
            x = self.one_of(self.out, code.function("PyLong_AsLongLong", "i64", self.item(outputs, k - count)))
            triple = self.tensor_saved(x, self.owned(self.slot(x, "tensor._a")), node, saved, self.out)
            code.function("PyList_SetItem", "i32", saved, k, triple)
        return saved

    def tensor_saved(self, x: Value, array: Value, *owned: Value) -> Value:
        """(array, storage, version) of a tensor. Python refuses to save one of inference mode."""
        storage = self.slot(x, "tensor._st")
        inference = self.attribute(storage, "inference")
        self.call_void("Py_DecRef", inference)  # True, False or DETACHED, which others hold
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

    def array(self, k: Value) -> Value:
        """The operand's array or number, owned."""
        return self.code.function("PySequence_GetItem", "ptr", self.argument[ARRAYS], k)

    def leave_to_python(self, test: Value, *owned: Value) -> None:
        """Return what Python code does where a test holds, and give up references."""
        code = self.code
        with code.when(test):
            for each in owned:
                self.call_void("Py_DecRef", each)
            nothing = code.cast(code.value(0, "i64"), "ptr")
            arguments = (self.pointer("otherwise"), self.arguments, self.count, nothing)
            self.leave(code.function("PyObject_Vectorcall", "ptr", *arguments))

"""Machine code written in Python: loops, conditions and arithmetic on `Value`s become LLVM IR.

    @native("ppq")
    def _negate(code, first, last, arguments, kind):
        x, out, n = arguments
        with code.loop(first, last) as i:
            code.store(-code.load(kind, x, i), out, i)

    _negate("float")(0, 8, x, out, 8)      # or parallel(_negate("float"), 8, x, out, 8)

A function written like this is compiled once for each tuple of its parameters (`kind` above), in 10 to 30 ms; the object
code is kept like every kernel's. Its arguments are one word each: the address of an array, an integer, or a float. LLVM's
optimizer runs, but no fast-math flag is set: nothing is reordered or contracted, so that vectors and scalars, and every
number of threads, give the same bits.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from tdt._kernels._compilable import ENTRY
from tdt._kernels._native import NativeKernel, linked, target_triple
from tdt._kernels._stream import END_STREAMS, PAST_CACHE, STREAMED
from tdt._kernels._syntax import FLOATS, constant, element, intrinsic, vector, vector_length

SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8, "ptr": 8}
COMPARED = {"<": ("olt", "slt"), "<=": ("ole", "sle"), ">": ("ogt", "sgt"), ">=": ("oge", "sge"), "==": ("oeq", "eq"),
            "!=": ("une", "ne")}  # fmt: skip


class Value:
    """A number, vector or address that the code computes."""

    __slots__ = ("code", "name", "kind")

    def __init__(self, code: Code, name: str, kind: str):
        self.code, self.name, self.kind = code, name, kind

    def _binary(self, other: Any, real: str, whole: str, swap: bool = False) -> Value:
        a, b = self, self.code.value(other, self.kind)
        if swap:
            a, b = b, a
        op = real if element(self.kind) in FLOATS else whole
        return self.code.new(self.kind, f"{op} {self.kind} {a.name}, {b.name}")

    def __add__(self, other: Any) -> Value:
        return self._binary(other, "fadd", "add")

    def __sub__(self, other: Any) -> Value:
        return self._binary(other, "fsub", "sub")

    def __rsub__(self, other: Any) -> Value:
        return self._binary(other, "fsub", "sub", swap=True)

    def __mul__(self, other: Any) -> Value:
        return self._binary(other, "fmul", "mul")

    def __truediv__(self, other: Any) -> Value:
        return self._binary(other, "fdiv", "sdiv")

    def __rtruediv__(self, other: Any) -> Value:
        return self._binary(other, "fdiv", "sdiv", swap=True)

    def __floordiv__(self, other: Any) -> Value:
        """The quotient of integers, rounded towards zero."""
        return self._binary(other, "fdiv", "sdiv")

    def __mod__(self, other: Any) -> Value:
        """The remainder of integers without sign."""
        return self._binary(other, "frem", "urem")

    def __and__(self, other: Any) -> Value:
        return self._binary(other, "", "and")

    def __or__(self, other: Any) -> Value:
        return self._binary(other, "", "or")

    def __invert__(self) -> Value:
        return self._binary(-1, "", "xor")

    def __xor__(self, other: Any) -> Value:
        return self._binary(other, "", "xor")

    def __lshift__(self, other: Any) -> Value:
        return self._binary(other, "", "shl")

    def __rshift__(self, other: Any) -> Value:
        """Shifted right, filled up with zeros."""
        return self._binary(other, "", "lshr")

    __radd__, __rmul__ = __add__, __mul__

    def _compare(self, how: str, other: Any) -> Value:
        other = self.code.value(other, self.kind)
        real, whole = COMPARED[how]
        test = f"fcmp {real}" if element(self.kind) in FLOATS else f"icmp {whole}"
        return self.code.new(vector("i1", vector_length(self.kind)), f"{test} {self.kind} {self.name}, {other.name}")

    def __lt__(self, other: Any) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Value:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self._compare("!=", other)

    __hash__ = None  # type: ignore[assignment]


class Variable:
    """A value that changes: `get` and `set`."""

    __slots__ = ("code", "name", "kind")

    def __init__(self, code: Code, name: str, kind: str):
        self.code, self.name, self.kind = code, name, kind

    def get(self) -> Value:
        """Its value now."""
        return self.code.new(self.kind, f"load {self.kind}, ptr {self.name}")

    def set(self, value: Any) -> None:
        """Give it another value."""
        value = self.code.value(value, self.kind)
        self.code.lines.append(f"  store {self.kind} {value.name}, ptr {self.name}")

    def add(self, value: Any) -> None:
        """Add to it."""
        self.set(self.get() + value)


class Code:
    """The body of a function that is being written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.variables: list[str] = []
        self.declared: set[str] = set()
        self.functions: list[str] = []  # of the module, beside this one
        self._numbers = itertools.count()

    def new(self, kind: str, text: str) -> Value:
        """An instruction, and its value."""
        name = f"%v{next(self._numbers)}"
        self.lines.append(f"  {name} = {text}")
        return Value(self, name, kind)

    def value(self, value: Any, kind: str) -> Value:
        """A number of Python's as a constant of a type; values are returned unchanged."""
        if isinstance(value, Value):
            return value
        return Value(self, constant(value, kind), kind)

    def variable(self, kind: str, value: Any = None) -> Variable:
        """A variable, which starts as `value`."""
        name = f"%s{next(self._numbers)}"
        self.variables.append(f"  {name} = alloca {kind}")
        variable = Variable(self, name, kind)
        if value is not None:
            variable.set(value)
        return variable

    def array(self, kind: str, count: int) -> Value:
        """Memory for `count` elements on the stack."""
        name = f"%s{next(self._numbers)}"
        self.variables.append(f"  {name} = alloca [{count} x {kind}], align 64")
        return Value(self, name, "ptr")

    def at(self, kind: str, address: Value, index: Any) -> Value:
        """The address of element `index` of an array."""
        index = self.value(index, "i64")
        return self.new("ptr", f"getelementptr {kind}, ptr {address.name}, i64 {index.name}")

    def load(self, kind: str, address: Value, index: Any = 0, count: int = 0) -> Value:
        """Element `index` of an array of this type, or `count` elements from there."""
        place, many = self.at(kind, address, index), vector(kind, count)
        return self.new(many, f"load {many}, ptr {place.name}, align {SIZES[kind]}")

    def gather(self, kind: str, address: Value, index: Value, stride: Value, count: int) -> Value:
        """`count` elements from `index` on, each `stride` behind the one before."""
        return self.gather_at(kind, self.at(kind, address, index), self.counting(count) * self.splat(stride, count))

    def gather_at(self, kind: str, address: Value, offsets: Value, unit: str = "") -> Value:
        """The elements at a vector of offsets from an address, counted in elements or in those of the type `unit`."""
        count = vector_length(offsets.kind)
        many, pointers = vector(kind, count), vector("ptr", count)
        places = self.new(pointers, f"getelementptr {unit or kind}, ptr {address.name}, {offsets.kind} {offsets.name}")
        suffix = {"float": "f32", "double": "f64", "half": "f16"}.get(kind, kind)
        name, mask = f"@llvm.masked.gather.v{count}{suffix}.v{count}p0", vector("i1", count)
        self.declared.add(f"declare {many} {name}({pointers}, i32, {mask}, {many})")
        text = f"call {many} {name}({pointers} {places.name}, i32 {SIZES[kind]}, {mask} {constant(1, mask)}, {many} poison)"
        return self.new(many, text)

    def load_first(self, kind: str, address: Value, count: Value, width: int) -> Value:
        """The first `count` elements from an address in a vector, all of it if they are more, else zeros behind them."""
        many, mask = vector(kind, width), vector("i1", width)
        places = Value(self, f"<{', '.join(f'i64 {k}' for k in range(width))}>", vector("i64", width))
        used = places < self.splat(count, width)
        name = f"@llvm.masked.load.v{width}{'f32' if kind == 'float' else 'f64'}.p0"
        self.declared.add(f"declare {many} {name}(ptr, i32, {mask}, {many})")
        text = f"call {many} {name}(ptr {address.name}, i32 {SIZES[kind]}, {mask} {used.name}, {many} zeroinitializer)"
        return self.new(many, text)

    def store(self, value: Value, address: Value, index: Any = 0, *, streamed: bool = False) -> None:
        """Write an element or a vector to element `index`. streamed: a vector past the cache, to a multiple of its bytes."""
        kind = element(value.kind)
        place = self.at(kind, address, index)
        how = str(SIZES[kind])
        if streamed:
            self.declared.add(STREAMED)
            how = f"{SIZES[kind] * vector_length(value.kind)}, {PAST_CACHE}"
        self.lines.append(f"  store {value.kind} {value.name}, ptr {place.name}, align {how}")

    def end_streams(self) -> None:
        """Let other threads see what was written past the cache."""
        self.declared.add(f"declare void {END_STREAMS}()")
        self.lines.append(f"  call void {END_STREAMS}()")

    def cast(self, value: Value, kind: str, signed: bool = True) -> Value:
        """The number in another type; an integer that is too large loses its upper bits."""
        kind = vector(kind, vector_length(value.kind))
        source, target = element(value.kind), element(kind)
        if source == target:
            return value
        if source == "ptr" or target == "ptr":
            op = "inttoptr" if target == "ptr" else "ptrtoint"
        elif source in FLOATS and target in FLOATS:
            op = "fpext" if SIZES[source] < SIZES[target] else "fptrunc"
        elif source in FLOATS:
            op = "fptosi" if signed else "fptoui"
        elif target in FLOATS:
            op = "sitofp" if signed and source != "i1" else "uitofp"
        elif source == "i1" or SIZES[source] < SIZES[target]:
            op = "sext" if signed and source != "i1" else "zext"
        else:
            op = "trunc"
        return self.new(kind, f"{op} {value.kind} {value.name} to {kind}")

    def bits(self, value: Value, kind: str) -> Value:
        """The same bits as another type."""
        kind = vector(kind, vector_length(value.kind))
        return self.new(kind, f"bitcast {value.kind} {value.name} to {kind}")

    def select(self, test: Value, yes: Any, no: Any) -> Value:
        """`yes` where the test holds, else `no`; one of them is a value."""
        kind = (yes if isinstance(yes, Value) else no).kind
        yes, no = self.value(yes, kind), self.value(no, kind)
        return self.new(kind, f"select {test.kind} {test.name}, {kind} {yes.name}, {kind} {no.name}")

    def minimum(self, a: Value, b: Any) -> Value:
        """The smaller of two integers."""
        b = self.value(b, a.kind)
        return self.select(a < b, a, b)

    def maximum(self, a: Value, b: Any) -> Value:
        """The larger of two integers."""
        b = self.value(b, a.kind)
        return self.select(a > b, a, b)

    def clear(self, address: Value, size: Any) -> None:
        """Set so many bytes from an address on to 0."""
        self.function("memset", "ptr", self.cast(address, "ptr"), self.value(0, "i32"), self.value(size, "i64"))

    def copy(self, out: Value, source: Value, size: Any) -> None:
        """Copy so many bytes from an address to another."""
        self.function("memcpy", "ptr", self.cast(out, "ptr"), self.cast(source, "ptr"), self.value(size, "i64"))

    def prefetch(self, address: Value, writes: bool = False) -> None:
        """Load the line at an address, which may be any, into the caches. writes: it will be written to."""
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        place = self.cast(address, "ptr")
        self.lines.append(f"  call void @llvm.prefetch.p0(ptr {place.name}, i32 {int(writes)}, i32 3, i32 1)")

    def call(self, name: str, *args: Value) -> Value:
        """An intrinsic of LLVM's, such as "sqrt", of equal types."""
        kind = args[0].kind
        function = intrinsic(name, kind)
        self.declared.add(f"declare {kind} {function}({', '.join([kind] * len(args))})")
        return self.new(kind, f"call {kind} {function}({', '.join(f'{kind} {a.name}' for a in args)})")

    def function(self, name: str, kind: str, *args: Value) -> Value:
        """A function of the C library."""
        self.declared.add(f"declare {kind} @{name}({', '.join(a.kind for a in args)})")
        return self.new(kind, f"call {kind} @{name}({', '.join(f'{a.kind} {a.name}' for a in args)})")

    def define(self, name: str, kinds: Sequence[str], write: Callable[..., None]) -> Callable[..., None]:
        """A function of the module: `write(code, *parameters)` writes it; returns what calls it with values or integers."""
        inner = Code()
        inner.declared = self.declared
        parameters = [Value(inner, f"%p{k}", kind) for k, kind in enumerate(kinds)]
        write(inner, *parameters)
        head = f"define internal void @{name}({', '.join(f'{p.kind} {p.name}' for p in parameters)}) noinline {{"
        self.functions.append("\n".join([head, "entry:", *inner.variables, *inner.lines, "  ret void", "}"]))

        def call(*args: Any) -> None:
            values = [self.value(a, kind) for a, kind in zip(args, kinds, strict=True)]
            self.lines.append(f"  call void @{name}({', '.join(f'{v.kind} {v.name}' for v in values)})")

        return call

    def splat(self, value: Value, count: int) -> Value:
        """A vector of equal elements."""
        if not count:
            return value
        kind = vector(value.kind, count)
        first = self.new(kind, f"insertelement {kind} poison, {value.kind} {value.name}, i64 0")
        return self.new(kind, f"shufflevector {kind} {first.name}, {kind} poison, <{count} x i32> zeroinitializer")

    def counting(self, count: int) -> Value:
        """The vector of the integers from 0."""
        return Value(self, f"<{', '.join([f'i64 {k}' for k in range(count)])}>", f"<{count} x i64>")

    def halves(self, value: Value) -> tuple[Value, Value]:
        """The first and the second half of a vector; elements where they are single ones."""
        kind, count = element(value.kind), vector_length(value.kind)
        if count == 2:
            return self.extract(value, 0), self.extract(value, 1)
        half = count // 2
        parts = []
        for start in (0, half):
            mask = ", ".join(f"i32 {start + k}" for k in range(half))
            text = f"shufflevector {value.kind} {value.name}, {value.kind} poison, <{half} x i32> <{mask}>"
            parts.append(self.new(vector(kind, half), text))
        return parts[0], parts[1]

    def shuffle(self, a: Value, b: Value, places: Sequence[int]) -> Value:
        """The vector of these elements of two vectors, counted through both."""
        mask = ", ".join(f"i32 {k}" for k in places)
        kind = vector(element(a.kind), len(places))
        return self.new(kind, f"shufflevector {a.kind} {a.name}, {b.kind} {b.name}, <{len(places)} x i32> <{mask}>")

    def extract(self, value: Value, place: int) -> Value:
        """An element of a vector."""
        return self.new(element(value.kind), f"extractelement {value.kind} {value.name}, i64 {place}")

    def label(self) -> str:
        """A new name for a place in the code."""
        return f"L{next(self._numbers)}"

    def jump(self, label: str) -> None:
        """Continue at a label."""
        self.lines.append(f"  br label %{label}")

    def branch(self, test: Value, yes: str, no: str) -> None:
        """Continue at one of two labels."""
        self.lines.append(f"  br i1 {test.name}, label %{yes}, label %{no}")

    def place(self, label: str) -> None:
        """Put a label here."""
        self.lines.append(f"{label}:")

    @contextlib.contextmanager
    def loop(self, start: Any, stop: Any, step: Any = 1) -> Iterator[Value]:
        """`for i in range(start, stop, step)`, with a positive step."""
        index = self.variable("i64", start)
        head, body, end = self.label(), self.label(), self.label()
        self.jump(head)
        self.place(head)
        i = index.get()
        self.branch(i < stop, body, end)
        self.place(body)
        yield i
        index.set(i + step)
        self.jump(head)
        self.place(end)

    def vectors(
        self,
        count: Value,
        many: int,
        write: Callable[[Value, int, int], None],
        *,
        middle: Callable[[Value, int, int], None] | None = None,
        misplaced: Value | None = None,
        unrolled: int = 1,
        once: bool = False,
        narrows: bool = False,
    ) -> None:
        """Write each of `count` elements once or twice, with the same value: `write(place, vectors, width)` does so.

        Where they fill a vector of `many`, the ends are written by vectors that overlap others, and nothing one by one, with
        the width 0. misplaced: elements by which the row begins behind a multiple of a vector in memory; all vectors but those
        at the ends are then written to such multiples. middle: writes, in place of `write`, vectors that share no line of the
        cache with others, in rows of four vectors at least. once: no element is written twice, as is necessary where it is read
        too; then those that do not fill a vector are written one by one. narrows: where they do not fill a vector, and some may
        be written twice, by two vectors of fewer elements, down to two.
        """

        def wide() -> None:
            start = self.value(0, "i64")
            if misplaced is not None and not once:
                write(start, 1, many)
                start = self.value(many, "i64") - misplaced
                if middle is not None:  # which shares no line with the first one
                    write(start, 1, many)
                    start = start + many
            each, last = unrolled * many, count // many * many if once else count - many
            rest = start + (last - start) // each * each
            if unrolled > 1:
                with self.loop(start, rest, each) as e:
                    (middle or write)(e, unrolled, many)
            if middle is not None:
                begin, rest = rest, rest + (last - rest) // many * many
                with self.loop(begin, rest, many) as e:
                    middle(e, 1, many)
            with self.loop(rest if unrolled > 1 else start, last, many) as e:
                write(e, 1, many)
            if once:
                narrow(last)
            else:
                write(last, 1, many)

        def narrow(first: Value | int = 0) -> None:
            with self.loop(first, count) as e:
                write(e, 1, 0)

        def halved(width: int) -> None:
            def two() -> None:
                write(self.value(0, "i64"), 1, width)
                write(count - width, 1, width)

            if width < 2:
                narrow()
            else:
                self.choose(count >= width, two, lambda: halved(width // 2))

        self.choose(count >= many, wide, (lambda: halved(many // 2)) if narrows and not once else narrow)

    @contextlib.contextmanager
    def forever(self) -> Iterator[Callable[[Value], None]]:
        """A loop that ends where the function it gives is called with a test that holds."""
        head, end = self.label(), self.label()
        self.jump(head)
        self.place(head)

        def leave(test: Value) -> None:
            on = self.label()
            self.branch(test, end, on)
            self.place(on)

        yield leave
        self.jump(head)
        self.place(end)

    @contextlib.contextmanager
    def when(self, test: Value) -> Iterator[None]:
        """The block is run if the test holds."""
        yes, end = self.label(), self.label()
        self.branch(test, yes, end)
        self.place(yes)
        yield
        self.jump(end)
        self.place(end)

    def choose(self, test: Value, yes: Callable[[], object], no: Callable[[], object]) -> None:
        """Write `yes` for the case that the test holds, `no` for the other."""
        labels = self.label(), self.label(), self.label()
        self.branch(test, *labels[:2])
        for label, write in zip(labels, (yes, no), strict=False):
            self.place(label)
            write()
            self.jump(labels[2])
        self.place(labels[2])

    def fail(self) -> None:
        """Leave the function at once; its caller gets 1."""
        self.lines.append("  ret i64 1")
        self.place(self.label())

    def module(self, words: str) -> str:
        """The IR of the whole module, whose function takes arguments of the types `words`."""
        head = [
            f'target triple = "{target_triple()}"',
            f"define i64 @{ENTRY}(ptr %words, i64 %first, i64 %last) {{",
            "entry:",
        ]
        return "\n".join(
            [*head, *self.variables, *self.lines, "  ret i64 0", "}", *self.functions, *sorted(self.declared), ""]
        )

    def words(self, table: Value, names: Sequence[str]) -> SimpleNamespace:
        """The words of a table by name: what a kernel takes that depends on shapes alone."""
        return SimpleNamespace(**{name: self.load("i64", table, k) for k, name in enumerate(names)})

    def arguments(self, letters: str) -> list[Value]:
        """The values of the function's words: an address for "p", an integer for "q", a double for "d"."""
        words, kinds = Value(self, "%words", "ptr"), {"p": "ptr", "q": "i64", "d": "double"}
        return [self.load(kinds[letter], words, k) for k, letter in enumerate(letters)]


def native(words: str, *, vectorize: bool = True) -> Callable[[Callable[..., None]], Callable[..., NativeKernel]]:
    """Make `write(code, first, last, arguments, *parameters)` a function of the parameters that gives the compiled code.

    Args:
        words: the type of each argument: "p" for an array (or its address), "q" for an integer, "d" for a float.
        vectorize: as in `linked`; False for code without loops over numbers that are to become vectors: it compiles sooner.
    """

    def decorate(write: Callable[..., None]) -> Callable[..., NativeKernel]:
        module = write.__module__.rpartition(".")[2]

        @functools.cache
        def compiled_for(*parameters: Any) -> NativeKernel:
            name = "-".join([f"{module}.{write.__name__}", *map(str, parameters)])
            [address] = linked(
                name, [ENTRY], lambda: written(write, words, parameters), optimize=True, vectorize=vectorize
            )
            return NativeKernel(name, address, words.replace("p", "q"))

        functools.update_wrapper(compiled_for, write)
        return compiled_for

    return decorate


def written(write: Callable[..., None], words: str, parameters: Sequence[Any]) -> str:
    """The IR of a function written with `Code`."""
    code = Code()
    first, last = Value(code, "%first", "i64"), Value(code, "%last", "i64")
    write(code, first, last, code.arguments(words), *parameters)
    return code.module(words)

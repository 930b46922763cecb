"""Random programs over tensors: lines of Python that run in PyTorch and in tdt, and what is compared of a run.

A program is drawn line by line while PyTorch runs it, so that shapes are known and most lines are valid; the others ask
whether both libraries refuse them in the same words.
"""

from __future__ import annotations

import functools
import itertools
import re
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from tests.parity.compare import builtin_class, describe, difference, first_clause, strides_of

SHAPES = ((6,), (2, 3), (3, 2), (2, 2, 2), (4,), (1, 3), ())
NAMES = [*"abcdefghijklmnopqrstuvwxyz", *(x + y for x, y in itertools.product("abcdefgh", "xyz"))]


@functools.cache
def _compiled(line: str) -> types.CodeType:
    return compile(line, "<program>", "exec")


def execute(line: str, env: dict[str, Any]) -> Exception | None:
    """Run one line in `env`; the error it raised, or None."""
    try:
        exec(_compiled(line), env)
    except Exception as error:  # noqa: BLE001 (the error is the answer that is compared)
        return error
    return None


@dataclass
class Program:
    """Lines of code, and how many of them wrote to a view."""

    lines: list[str] = field(default_factory=list)
    view_writes: int = 0

    def __str__(self) -> str:
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"\ndef show(torch):\n{body}    return locals()\n\nimport torch, tdt; show(torch); show(tdt)\n"

    __repr__ = __str__


class Writer:
    """Draws lines and runs them in PyTorch; `env` holds its variables, `names` those that are tensors."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any]):
        self.draw, self.env, self.program = draw, {"torch": torch}, Program()
        self.unused = iter(NAMES)
        self.over = False

    def tensors(self) -> list[str]:
        return [n for n, v in self.env.items() if isinstance(v, torch.Tensor)]

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def any(self) -> str:
        """A tensor, the newest ones more often."""
        names = self.tensors()
        return self.pick(names[-3:] if self.number(0, 2) else names)

    def target(self) -> str:
        """A tensor to write to: mostly one that may be written to, and a view where there is one."""
        names = self.tensors()
        if self.number(0, 15):
            names = [n for n in names if not _is_frozen(self.env[n])] or names
        views = [n for n in names if self.env[n]._is_view()]
        return self.pick(views if views and self.number(0, 9) else names)

    def like(self, name: str) -> str:
        """A tensor that broadcasts to `name`'s shape, or a number."""
        shape = self.env[name].shape
        fits = [n for n in self.tensors() if _broadcasts(self.env[n].shape, shape) and not self.unsure(n, name)]
        return self.pick(fits) if fits and self.number(0, 3) else str(self.pick((2, 0.5, -1)))

    def unsure(self, read: str, written: str) -> bool:
        """Whether two tensors may overlap in a way that PyTorch does not look for: what it then reads is undefined."""
        a, b = self.env[read], self.env[written]
        shared = a is not b and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
        if shared and (a.shape, a.stride()) != (b.shape, b.stride()) and (1 in a.shape or 1 in b.shape):
            return True  # PyTorch compares the strides of dimensions of one index too, which are never used
        return shared and not (a.is_contiguous() and b.is_contiguous())

    def shares(self, read: str, written: str) -> bool:
        """Whether a part of one tensor may overlap the other, of which PyTorch sees some cases and reads nonsense in others."""
        return self.env[read].untyped_storage().data_ptr() == self.env[written].untyped_storage().data_ptr()

    def new(self) -> str:
        return next(self.unused)

    def shape(self, name: str) -> torch.Size:
        return self.env[name].shape

    def dim(self, name: str) -> int:
        """A dimension of `name`; rarely one that does not exist."""
        n = max(self.env[name].dim(), 1)
        return self.number(-n, n - 1) if self.number(0, 30) else n

    def add(self, line: str, written: str | None = None) -> None:
        """Append `line` and run it. `written`: the tensor that it changes in place."""
        is_view = written is not None and self.env[written]._is_view()
        error = execute(line, self.env)
        self.over = error is not None and "backward(" in line  # what it has freed by then is each engine's own business
        if error is not None and self.has_two_mistakes(line, error):
            return
        self.program.lines.append(line)
        self.program.view_writes += is_view and error is None

    def has_two_mistakes(self, line: str, error: Exception) -> bool:
        """Whether a line uses a view that cannot follow its base, and would be wrong without that too.

        Which of the two is named depends in PyTorch on what a function is made of: f[5] finds the index out of range, f[:, 5]
        the view. A backward that finds such a view among what was kept finds what it kept changed as well.
        """
        if not re.search("its base or another view of its base has been modified|This view is the output", str(error)):
            return False
        tensors = {n: v for n, v in self.env.items() if isinstance(v, torch.Tensor)}
        if "backward(" in line or "autograd.grad(" in line:
            return not any(_has_old_graph(tensors[n]) for n in re.findall(r"\w+", line) if n in tensors)
        return execute(line, {**self.env, **{n: v.detach().clone() for n, v in tensors.items()}}) is not None


def _broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(shape[::-1], to[::-1]))


def _is_frozen(t: torch.Tensor) -> bool:
    """Whether `t` is a leaf that requires a gradient, or a view of one: writing to it is an error."""
    root = t._base if t._is_view() else t
    return root.requires_grad and root.is_leaf


def _has_old_graph(t: torch.Tensor) -> bool:
    """Whether `t` is a view that was made in a way that it cannot follow what was written to its base."""
    return isinstance(_read(t, "grad_fn"), tuple)


def _index(w: Writer, x: str) -> str:
    """The inside of x[…]: numbers, slices, None and … that fit, and rarely one out of range."""
    parts = []
    for n in w.shape(x)[: w.number(1, 3)]:
        kind = w.number(0, 5)
        if kind < 2:
            parts.append(str(w.number(-n, n - 1) if n else 0))
        elif kind < 5:
            start = w.number(0, max(n - 1, 0))
            stop = w.number(start + 1, n + 1)
            # A step over a single index would only change a stride that is never used; PyTorch compares it all the same.
            parts.append(f"{start}:{stop}" + (":2" if start + 2 < min(stop, n) and w.number(0, 1) else ""))
        else:
            parts.append(w.pick((":", "None", "...", str(n))) if "..." not in parts else ":")
    return ", ".join(parts) or "..."


def view_line(w: Writer) -> str:
    """`y = ` a view of some tensor, or several views at once."""
    x = w.any()
    n, dim = w.env[x].dim(), w.dim(x)
    forms = {
        "index": lambda: f"{x}[{_index(w, x)}]",
        "view": lambda: f"{x}.view({_reshaped(w, x)})",
        "reshape": lambda: f"{x}.reshape({_reshaped(w, x)})",
        "transpose": lambda: f"{x}.transpose({dim}, {w.dim(x)})",
        "permute": lambda: (
            f"{x}.permute({', '.join(map(str, w.draw(st.permutations(range(n)))))})" if n else f"{x}[...]"
        ),
        "expand": lambda: f"{x}.expand({', '.join(map(str, (w.number(1, 2), *w.shape(x))))})",
        "unsqueeze": lambda: f"{x}.unsqueeze({dim})",
        "squeeze": lambda: f"{x}.squeeze({w.pick(('', dim))})",
        "narrow": lambda: f"{x}.narrow({dim}, 0, {w.number(1, 2)})",
        "select": lambda: f"{x}.select({dim}, {w.number(-1, 1)})",
        "diagonal": lambda: f"{x}.diagonal()",
        "flatten": lambda: f"{x}.flatten()",
        "detach": lambda: f"{x}.detach()",
        "view_as": lambda: f"{x}.view_as({x})",
    }
    if not w.number(0, 4) and (n or not w.number(0, 9)):
        several = w.pick((f"{x}.split(1, {dim})", f"{x}.chunk(2, {dim})", f"{x}.unbind({dim})", f"torch.split({x}, 2)"))
        return f"{w.new()}, *{w.new()} = {several}"
    form = w.pick([k for k in forms for _ in range(4 if k == "index" else 1)])
    return f"{w.new()} = {forms[form]()}"


def _reshaped(w: Writer, x: str) -> str:
    size = w.env[x].numel()
    choices = [s for s in SHAPES if int(np.prod(s)) == size] + [(-1,), (size, 1), (1, size)]
    if not w.number(0, 12):
        choices = [(5,), (2, -1), (-1, 2, 2)]
    return ", ".join(map(str, w.pick(choices))) or "()"


def write_line(w: Writer) -> tuple[str, str]:
    """A line that changes a tensor in place, and that tensor's name."""
    x = w.target()
    other = w.like(x)
    form = w.pick(("add_", "add_", "mul_", "mul_", "copy_", "zero_", "fill_", "set", "set", "put", "sub_", "augmented",
                   "masked_fill_", "mask", "alpha", "tanh_", "addcmul_", "clamp_"))  # fmt: skip
    as_tensor = other if other.isalpha() else f"torch.tensor({other}., dtype=torch.float64)".replace(".5.", ".5")
    index = _index(w, x) if w.shape(x) else "..."
    part = w.pick([str(w.number(-1, 2)), *(n for n in w.tensors() if not w.shares(n, x))])
    line = {
        "copy_": f"{x}.copy_({as_tensor})",
        "zero_": f"{x}.zero_()",
        "fill_": f"{x}.fill_({w.number(-2, 2)})",
        "set": f"{x}[{index}] = {part}",
        "put": f"{x}.index_put_((torch.tensor([0, 0]),), {as_tensor}, accumulate={bool(w.number(0, 1))})",
        "augmented": f"{x} {w.pick(('+', '-', '*'))}= {other}",
        "masked_fill_": f"{x}.masked_fill_({x} > 1, {w.number(-1, 1)})",
        "mask": f"{x}[{x} > 1] = {w.number(-1, 1)}",
        "alpha": f"{x}.add_({other}, alpha=2)",
        "tanh_": f"{x}.tanh_()",
        "addcmul_": f"{x}.addcmul_({x}, {as_tensor}, value=0.5)",
        "clamp_": f"{x}.clamp_(-2, 2)",
    }.get(form, f"{x}.{form}({other})")
    return line, x


def compute_line(w: Writer) -> str:
    """`y = ` a new tensor from old ones."""
    x = w.any()
    other, dim = w.like(x), w.dim(x)
    y, z = w.new(), w.any()
    if w.unsure(z, x):
        z = x
    # Of batches of matrices that do not fit, PyTorch names sizes after it has folded them, as memory and gradients let it.
    # Where several dimensions count batches it makes them one, and keeps a copy if memory does not let it.
    product = x if w.env[x].dim() < 4 else f"{x}.contiguous()"
    factor = z if max(w.env[x].dim(), w.env[z].dim()) < 3 else f"{product}.transpose(-1, -2)"
    return w.pick((
        f"{y} = {x} + {other}", f"{y} = {x} * {other}", f"{y} = {x} * {other}", f"{y} = {other} - {x}",
        f"{y} = {x} / {other}", f"{y} = {x} + {z}", f"{y} = {x} * {z}", f"{y} = {product} @ {factor}",
        f"{y} = {x}.sum({dim})", f"{y} = {x}.sum({dim}, keepdim=True)", f"{y} = {x}.mean()", f"{y} = torch.tanh({x})",
        f"{y} = {x}.exp()", f"{y} = {x}.clone()", f"{y} = {x}.contiguous()", f"{y} = torch.cat([{x}, {z}], {dim})",
        f"{y} = torch.stack([{x}, {x}], {dim})", f"{y} = torch.where({x} > 1, {x}, {other})",
        f"{y} = {x}.max({dim}).values", f"{y} = {x}[torch.tensor([0, 0])]", f"{y} = torch.relu({x})",
        f"{y} = {x}.masked_select({x} > 1)", f"{y} = {x}.index_select({dim}, torch.tensor([0]))",
        f"{y} = {x}.pow(2)", f"{y} = -{x}", f"{y} = torch.matmul({product}, {product})",
    ))  # fmt: skip


def graph_line(w: Writer) -> str:
    """A line about gradients: backward once or twice, autograd.grad, requires_grad_, detach_, retain_grad, grad."""
    x = w.any()
    wanting = [n for n in w.tensors() if w.env[n].requires_grad] or [x]
    y, z = w.pick(wanting), w.pick(wanting)
    # How a gradient lies in memory, and what it is a view of, is each engine's own business.
    dense = "clone(memory_format=torch.contiguous_format)"
    squares = f"{w.new()} = torch.autograd.grad(({y} * {y}).sum(), {z}"
    alone = w.pick([n for n in w.tensors() if _is_unused(w, n)] or [x])
    return w.pick((
        f"{y}.sum().backward()", f"{y}.sum().backward(retain_graph=True)", f"{x}.retain_grad()",
        f"({y} * {z}).sum().backward(retain_graph=True)", f"{y}.backward(torch.ones_like({y}))",
        f"{x}.requires_grad_()", f"{x}.requires_grad_(False)",
        f"{squares}, allow_unused=True, retain_graph=True)[0].{dense}",
        f"{squares}, create_graph=True)[0].{dense}",
        f"{y}.backward()", f"{x}.grad = None", f"{w.new()} = {x}.detach()", f"{y}.sum().backward(create_graph=False)",
        f"{x}.requires_grad = True", f"{alone}.detach_()" if _is_unused(w, alone) else f"{x}.detach()",
    ))  # fmt: skip


def _is_unused(w: Writer, name: str) -> bool:
    """Whether only one line so far names a tensor.

    PyTorch's backward refuses a kept tensor after detach_, a shortcut in its bookkeeping as it says itself, and fails in an
    assertion of its own where retain_grad was called before; views of one are cut off when they are next asked.
    """
    if sum(bool(re.search(rf"\b{name}\b", line)) for line in w.program.lines) != 1:
        return False
    return not any(w.env[n] is w.env[name] for n in w.tensors() if n != name)


def out_line(w: Writer) -> tuple[str, str]:
    """A line with `out=`, sometimes into a view or under no_grad, and the tensor written to."""
    y = w.target()
    x = w.pick([n for n in w.tensors() if w.shape(n) == w.shape(y) and not w.unsure(n, y)] or [y])
    function = w.pick(("torch.add", "torch.mul", "torch.sub"))
    line = f"{function}({x}, {w.like(y)}, out={y})"
    return (f"with torch.no_grad(): {line}" if w.number(0, 1) else line), y


def start(w: Writer) -> None:
    """Two tensors to begin with; one of them is often already computed, so that it may be written to."""
    for _ in range(2):
        shape = w.pick(SHAPES)
        values = (np.arange(int(np.prod(shape))) % 5 - 1.0 + w.number(0, 2)).reshape(shape).tolist()
        grad = ", requires_grad=True" if w.number(0, 2) else ""
        w.add(f"{w.new()} = torch.tensor({values}, dtype=torch.float64{grad})")
    if w.number(0, 3):
        w.add(f"{w.new()} = {w.any()} * 2")


@st.composite
def programs(draw: Callable[[st.SearchStrategy], Any]) -> Program:
    """Programs of 3 to 15 statements over two tensors, ending with a backward pass over all that requires a gradient."""
    w = Writer(draw)
    start(w)
    if w.number(0, 3):
        w.add(view_line(w))
    for _ in range(w.number(3 - min(3, len(w.program.lines) - 2), 10)):
        kind = w.number(0, 19)
        if kind < 6:
            line, written = view_line(w), None
        elif kind < 14:
            line, written = write_line(w)
        elif kind < 17:
            line, written = compute_line(w), None
        elif kind < 18:
            line, written = out_line(w)
        else:
            line, written = graph_line(w), None
        if kind < 17 and not w.number(0, 9):
            line = f"with torch.no_grad(): {line}"
        w.add(line, written)
        if w.over:
            return w.program
    wanting = [n for n in w.tensors() if w.env[n].requires_grad]
    if wanting:
        w.add(f"({' + '.join(f'({n} * {n}).sum()' for n in wanting)}).backward()")
    return w.program


def disagreement(program: Program, theirs: Any, ours: Any) -> str | None:
    """The first thing on which two libraries disagree about a program: an error, a variable, a gradient."""
    a, b = {"torch": ours}, {"torch": theirs}
    for number, line in enumerate(program.lines, 1):
        our_error, their_error = execute(line, a), execute(line, b)
        if _words(our_error) != _words(their_error):
            return (
                f"line {number}, {line}\n  tdt:     {describe(our_error)}\n  PyTorch: {describe(their_error)}".replace(
                    "NoneType: None", "no error"
                )
            )
    # Whether gradients were added up, or a product was reshaped, in place, which counts as a write, is an engine's own
    # business.
    versions = not any("autograd.grad(" in line or " @ " in line or "matmul" in line for line in program.lines)
    for name, value in b.items():
        if isinstance(value, torch.Tensor) or (isinstance(value, list) and value):
            pairs = zip(a[name], value, strict=True) if isinstance(value, list) else [(a[name], value)]
            for ours_one, theirs_one in pairs:
                text = _tensor_disagreement(ours_one, theirs_one, versions)
                if text:
                    return f"{name}: {text}"
    return None


def _words(error: Exception | None) -> tuple | None:
    if error is None:
        return None
    clause = re.sub(r"of \w+ is a view", "of a node is a view", first_clause(error))
    return builtin_class(error), re.sub(r"Function \w* ?returned", "A function returned", clause)


def _read(x: Any, what: str) -> Any:
    """An attribute, or the message of the error: an outdated view created under no_grad has no readable graph."""
    try:
        return getattr(x, what)
    except RuntimeError as error:
        return _words(error)


def _tensor_disagreement(ours: Any, theirs: torch.Tensor, versions: bool) -> str | None:
    text = difference(ours, theirs)
    if text:
        return text
    if strides_of(ours) != strides_of(theirs):
        return f"strides: tdt {strides_of(ours)}, PyTorch {strides_of(theirs)}, shape {tuple(theirs.shape)}"
    for what in ("requires_grad", "is_leaf", "_version")[: 3 if versions else 2]:
        our_answer, their_answer = _read(ours, what), _read(theirs, what)
        if our_answer != their_answer:
            return f"{what}: tdt {our_answer}, PyTorch {their_answer}"
    if _read(theirs, "is_leaf") is not True and not theirs.retains_grad:
        return None
    grad, their_grad = ours.grad, theirs.grad
    if (grad is None) != (their_grad is None):
        return f"grad: tdt {grad}, PyTorch {their_grad}"
    text = None if their_grad is None else difference(grad, their_grad)
    return text and f"grad: {text}"

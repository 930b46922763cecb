"""A component written as text, `Conv2d(1, 32, 3, padding=1)` → Call node. Parsed by `ast`, never evaluated."""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from typing import NoReturn

from tdt.train._printable import cut
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, child, join, plain
from tdt.train.config.scalars import LONGEST_NUMBER

LONGEST_CALL = 2000
DEEPEST = 20
_QUOTED_OR_REFERENCE = re.compile(r"""'[^']*'|"[^"]*"|\$\{[^{}]*\}""")
_WORDS = {"true": True, "false": False, "null": None}  # YAML's spelling, in addition to Python's


class _Unreadable(Exception):
    """Part of a call is not a name, a literal or a keyword argument; args: offset, message."""


def parse(scalar: Scalar, path: str, errors: ConfigErrors) -> Call:
    """Parse the text of `scalar` as a call. On failure, add an error and return a call that is `broken`."""
    broken = Call(scalar.source, scalar.key_source, broken=True)
    if scalar.broken:
        return broken
    try:
        return _Reader(scalar, path).read()
    except _Unreadable as error:
        offset, message = error.args
        place = scalar.where if offset is None else scalar.at(offset)
        errors.add(place, message, kind="bad-value", key=path)
        return broken


def looks_like_call(scalar: Scalar) -> bool:
    """Whether the text is a bare name or begins like a call."""
    return isinstance(scalar.value, str) and re.match(r"[A-Za-z_]\w*(\(.*\))?$", scalar.value, re.DOTALL) is not None


class _Reader:
    def __init__(self, scalar: Scalar, path: str) -> None:
        self.scalar, self.path = scalar, path
        self.text = scalar.value if isinstance(scalar.value, str) else ""

    def read(self) -> Call:
        text = self.text
        if len(text) > LONGEST_CALL:
            self.fail(None, f"the call has {len(text)} characters; {LONGEST_CALL} is the most that is read")
        if _depth(text) > DEEPEST:
            self.fail(None, f"the brackets nest deeper than {DEEPEST} levels")
        if text != text.strip():
            self.fail(None, "remove the spaces around the name")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about "\d" in a string
                tree = ast.parse(_QUOTED_OR_REFERENCE.sub(_as_name, text), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.fail(None, f"{cut(text)} cannot be read as a name or a call: {_reason(error)}{_advice(text)}")
        call = self.call(tree, self.path)
        call.source, call.key_source = self.scalar.source, self.scalar.key_source
        return call

    def fail(self, offset: int | None, message: str) -> NoReturn:
        raise _Unreadable(offset, message)

    def offset(self, node: ast.expr | ast.keyword) -> int:
        if node.lineno != 1:
            return 0
        return len(self.text.encode()[: node.col_offset].decode())  # ast counts bytes

    def call(self, tree: ast.expr, path: str) -> Call:
        if isinstance(tree, ast.Name):
            return Call(self.scalar.at(self.offset(tree)), name=tree.id)
        if not isinstance(tree, ast.Call):
            name = self.segment(tree)
            if isinstance(tree, ast.Attribute):
                self.fail(self.offset(tree), f"{name} has a dot; write {tree.attr!r} alone")
            listed = f"; a list is written with [ ]: [{name}]" if isinstance(tree, ast.Tuple) else ""
            self.fail(self.offset(tree), f"expected a name like ReLU or a call like Linear(64, 10), got {name}{listed}")
        if isinstance(tree.func, ast.Attribute):
            name = self.segment(tree.func)
            self.fail(self.offset(tree), f"{name} has a dot; write {tree.func.attr!r} alone")
        if not isinstance(tree.func, ast.Name) or self.segment(tree.func).startswith("$"):
            self.fail(self.offset(tree), f"expected a name before '(', got {self.segment(tree.func)}")
        call = Call(self.scalar.at(self.offset(tree)), name=tree.func.id)
        for number, arg in enumerate(tree.args):
            call.args.append(self.value(arg, join(path, number)))
        for keyword in tree.keywords:
            if keyword.arg is None:
                self.fail(self.offset(keyword), "** cannot be used; write each argument out")
            node = self.value(keyword.value, join(path, keyword.arg))
            node.key_source = self.scalar.at(self.offset(keyword))
            call.kwargs[keyword.arg] = node
        return call

    def value(self, tree: ast.expr, path: str) -> Node:
        source = self.scalar.at(self.offset(tree))
        if isinstance(tree, ast.Call):
            return self.call(tree, path)
        if isinstance(tree, (ast.List, ast.Tuple)):
            return Sequence(source, items=[self.value(item, join(path, i)) for i, item in enumerate(tree.elts)])
        if isinstance(tree, ast.Dict):
            return Mapping(source, items=self.items(tree, path))
        if isinstance(tree, ast.Name):
            text = (
                ast.get_source_segment(self.text, tree) or tree.id
            )  # for a reference, its text and not the stand-in name
            return Scalar(source, value=_WORDS.get(text, text), text=text)
        return Scalar(source, value=self.literal(tree), text=self.segment(tree))

    def items(self, tree: ast.Dict, path: str) -> dict[str, Node]:
        items = {}
        for key, value in zip(tree.keys, tree.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                self.fail(self.offset(key or value), "a key in { } is a quoted text here, as in {'lr': 0.1}")
            items[key.value] = self.value(value, join(path, key.value))
            items[key.value].key_source = self.scalar.at(self.offset(key))
        return items

    def literal(self, tree: ast.expr) -> bool | int | float | str | None:
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.UAdd)):
            value = tree.operand.value if isinstance(tree.operand, ast.Constant) else None
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                self.fail(self.offset(tree), f"{self.segment(tree)} is not a number")
            return -value if isinstance(tree.op, ast.USub) else value
        if isinstance(tree, ast.Constant) and isinstance(tree.value, (bool, int, float, str, type(None))):
            if isinstance(tree.value, (int, float)) and len(self.segment(tree)) > LONGEST_NUMBER:
                self.fail(self.offset(tree), f"the number has more than {LONGEST_NUMBER} characters")
            if tree.value == float("inf"):
                self.fail(self.offset(tree), f"{self.segment(tree)} is too large for a float")
            return tree.value
        message = f"{self.segment(tree)} is an expression, and nothing is evaluated; write the value, or quote a text"
        return self.fail(self.offset(tree), message)

    def segment(self, tree: ast.expr) -> str:
        return cut(ast.get_source_segment(self.text, tree) or "")


def child_of(node: Node, key: str) -> Node | None:
    """Like `nodes.child`, also inside a call that is still text."""
    return child(parse(node, "", ConfigErrors()) if isinstance(node, Scalar) and looks_like_call(node) else node, key)


def _as_name(match: re.Match[str]) -> str:
    """Replace a reference by a name of equal length in bytes, so that ast's columns stay right; keep a quoted text."""
    return "_" * len(match[0].encode()) if match[0][0] == "$" else match[0]


def _depth(text: str) -> int:
    """Nesting depth of the brackets in `text`."""
    steps = (1 if character in "([{" else -1 for character in text if character in "([{)]}")
    return max(itertools.accumulate(steps), default=0)


def _reason(error: BaseException) -> str:
    if isinstance(error, (RecursionError, MemoryError)):
        return "it nests too deeply"
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _advice(text: str) -> str:
    """The advice to quote a text that looks like a path."""
    path = re.search(r"[(,=]\s*([\w.~-]*[/\\:][^,()'\"\s]*)", text)
    return f"; quote the text {path[1]!r}" if path else ""


def unparse(node: Node, inside: bool = False) -> str:
    """Convert a node to text that `parse` reads as the same node. inside: a call, where a bare name is a string."""
    if isinstance(node, Call):
        args = [unparse(arg, True) for arg in node.args]
        args += [f"{key}={unparse(arg, True)}" for key, arg in node.kwargs.items()]
        return f"{node.name}({', '.join(args)})" if args or inside else node.name
    if isinstance(node, Sequence):
        return f"[{', '.join(unparse(item, True) for item in node.items)}]"
    if isinstance(node, Mapping):
        return "{" + ", ".join(f"{key!r}: {unparse(item, True)}" for key, item in node.items.items()) + "}"
    return repr(node.written if isinstance(node, Scalar) and node.written else plain(node))

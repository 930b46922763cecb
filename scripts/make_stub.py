"""Write tdt/_core/tensor.pyi, the types of Tensor with the methods that tdt/_methods.py binds: `python scripts/make_stub.py`.

What stands in _tensor.py is taken from its source; what is bound when tdt loads, from the functions' signatures.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import tdt
from tdt import Tensor

SOURCE = Path(tdt.__file__).parent / "_core" / "tensor.py"
TARGET = SOURCE.with_suffix(".pyi")
HEAD = "# Made by scripts/make_stub.py; a test compares.\nimport builtins\n"
KNOWN = {"Tensor", "Any", "bool", "int", "float", "str", "None", "tuple", "list", "Size", "slice"}
HIDDEN = {"bool", "int", "float"}  # inside Tensor these names are its methods


COMPARISONS = {f"__{name}__" for name in ("eq", "ge", "gt", "le", "lt", "ne")}  # not object's: they give tensors


class Builtins(ast.NodeTransformer):
    """Spells the hidden names `builtins.int`."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.parse(f"builtins.{node.id}", mode="eval").body if node.id in HIDDEN else node


def bare(node: ast.AST) -> ast.AST:
    """A definition without its body; a class without its members' bodies."""
    if isinstance(node, ast.FunctionDef):
        node.body = [ast.Expr(ast.Constant(...))]
        node = Builtins().visit(node)
    elif isinstance(node, ast.ClassDef):
        node.body = [bare(child) for child in node.body if not is_text(child)] or [ast.Expr(ast.Constant(...))]
    return node


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def annotation(value: Any) -> str:
    """An annotation that the stub can name; anything else is Any."""
    text = value if isinstance(value, str) else getattr(value, "__name__", "Any")
    try:
        names = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    except SyntaxError:
        return "Any"
    return ast.unparse(Builtins().visit(ast.parse(text))) if names <= KNOWN and "." not in text else "Any"


def method(name: str, function: Any) -> str:
    """The stub's line for a function bound as the method `name`."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."
    parameters = [
        parameter.replace(
            name="self" if index == 0 else parameter.name,
            annotation=inspect.Parameter.empty,
            default=parameter.default if parameter.default is parameter.empty else ...,
        )
        for index, parameter in enumerate(signature.parameters.values())
    ]
    returns = "Tensor" if signature.return_annotation is signature.empty else annotation(signature.return_annotation)
    text = str(inspect.Signature(parameters)).replace("Ellipsis", "...")
    return f"def {name}{text} -> {returns}: ..."


def bound(defined: set[str]) -> list[str]:
    """The stub's lines for what Tensor has beyond its source, `defined`."""
    lines = []
    for name, value in sorted(vars(Tensor).items()):
        inherited = name in vars(object) and name not in COMPARISONS
        if name in defined or inherited or (name.startswith("__") and not callable(value)):
            continue
        if isinstance(value, property):
            returns = annotation(inspect.signature(value.fget).return_annotation) if value.fget else "Any"
            lines += ["@property", f"def {name}(self) -> {returns}: ..."]
            if value.fset is not None:
                lines += [f"@{name}.setter", f"def {name}(self, value: Any) -> None: ..."]
        elif callable(value):
            lines.append(method(name, value))
    return lines


def stub() -> str:
    """The text of the stub."""
    tree = ast.parse(SOURCE.read_text())
    body: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            body.append(ast.unparse(bare(node)).replace(":\n        ...", ": ..."))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            body += [f"{target.id}: Any" for target in targets if isinstance(target, ast.Name)]
        if isinstance(node, ast.ClassDef) and node.name == "Tensor":
            defined = {name for child in node.body for name in names(child)}
            body += [f"    {line}" for line in bound(defined)]
    return HEAD + "\n".join(body) + "\n"


def names(node: ast.AST) -> list[str]:
    """The names that a statement of a class body defines."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


if __name__ == "__main__":
    TARGET.write_text(stub())

"""Write tdt/_core/tensor.pyi and tdt/__init__.pyi, which type checkers and editors read: `python scripts/make_stub.py`.

Methods are bound and names exported when tdt loads, so the types come from the functions' own signatures. What those do not
say stands in the tables below: operators, overloads, and results with names.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_overloads

import tdt
from tdt import Tensor, _public

PACKAGE = Path(tdt.__file__).parent
SOURCE = PACKAGE / "_core" / "tensor.py"
HEAD = """\
# Made by scripts/make_stub.py; a test compares.
import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import EllipsisType
from typing import IO, Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
"""
ALIASES = """\
_Number: TypeAlias = builtins.int | builtins.float | builtins.complex | np.number[Any] | np.bool_
_Operand: TypeAlias = Tensor | _Number
_Ints: TypeAlias = builtins.int | Sequence[builtins.int]
_Dims: TypeAlias = builtins.int | Sequence[builtins.int] | None
_Device: TypeAlias = _device | str | builtins.int | None
_Normed: TypeAlias = tuple[Tensor, Tensor, Tensor]
_Lengths: TypeAlias = Tensor | Sequence[builtins.int]
_Index: TypeAlias = (
    builtins.int | builtins.slice | EllipsisType | Tensor | np.ndarray[Any, Any] | list[Any] | tuple[Any, ...] | None
)
"""
TYPING = {"Any", "Callable", "IO", "PathLike", "Iterable", "Iterator", "Literal", "Mapping", "Sequence", "None"}
BUILTIN = {"bool", "int", "float", "complex", "str", "bytes", "tuple", "list", "dict", "slice", "type"}
OURS = {"Tensor", "Size", "dtype", "device", "Generator", "layout", "memory_format", "UntypedStorage", "TypedStorage"}
# Inside Tensor, and in tdt, these names are a property or a function.
NAMES = {"Dtype": "_dtype", "dtype": "_dtype", "device": "_device", "layout": "_layout", "Dims": "_Dims",
         "Normed": "_Normed", "Lengths": "_Lengths", "Device": "_Device",
         "Layout": "_layout", "Number": "_Number", "Ints": "_Ints", "MemoryFormat": "_memory_format",
         "memory_format": "_memory_format", "ndarray": "np.ndarray[Any, Any]"}  # fmt: skip
OUR_IMPORTS = """\
from tdt._backend.device import device as _device
from tdt._core.dtype import dtype as _dtype
from tdt._core.layout import layout as _layout
from tdt._core.size import Size as Size
from tdt._core.storage import TypedStorage as TypedStorage
from tdt._core.storage import UntypedStorage as UntypedStorage
from tdt._core.memory_format import memory_format as _memory_format
from tdt._random import Generator as Generator
"""
OUR_OWN = "from tdt.train.trained_model import load_model as load_model\n"  # what PyTorch lacks

SIZES = {"size", "sizes", "shape", "dims", "repeats"}  # given one by one, or as one sequence
COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "div")

# Results with names: function → fields.
RESULTS = {
    "aminmax": "min max", "cummax": "values indices", "cummin": "values indices", "frexp": "mantissa exponent",
    "geqrf": "a tau", "histogram": "hist bin_edges", "kthvalue": "values indices", "max": "values indices",
    "median": "values indices", "min": "values indices", "mode": "values indices", "nanmedian": "values indices",
    "qr": "Q R", "slogdet": "sign logabsdet", "sort": "values indices", "svd": "U S V", "topk": "values indices",
    "triangular_solve": "solution cloned_coefficient", "lu_unpack": "P L U",
}  # fmt: skip
WHOLE = ("max", "min", "median", "nanmedian")  # without `dim` a tensor: of all elements
PAIRED = ("max", "min")  # with `other` the larger or smaller of each pair
RETURNS = {
    "is_complex": "builtins.bool", "is_conj": "builtins.bool", "is_floating_point": "builtins.bool",
    "is_inference": "builtins.bool", "is_neg": "builtins.bool", "is_nonzero": "builtins.bool",
    "is_signed": "builtins.bool", "is_distributed": "builtins.bool", "numel": "builtins.int", "get_device": "builtins.int",
    # As in PyTorch not complex: `total += loss.item()` would be an error where total is a float.
    "get_rng_state": "Tensor", "item": "builtins.bool | builtins.int | builtins.float",
    "std_mean": "tuple[Tensor, Tensor]", "var_mean": "tuple[Tensor, Tensor]", "where": "Tensor",
}  # fmt: skip
MODULES = """
    accelerator amp autograd backends compiler cuda distributed distributions fft func functional linalg masked
    multiprocessing nn onnx optim profiler random serialization signal sparse special storage testing train types utils version
    vision"""
# Modules of tdt/compat that stand in PyTorch's place.
SHIMS = "fx futures hub jit library ops overrides"
METHODS = {
    "size": ["@overload", "def size(self, dim: None = None) -> Size: ...",
             "@overload", "def size(self, dim: builtins.int) -> builtins.int: ..."],
    "stride": ["@overload", "def stride(self, dim: None = None) -> tuple[builtins.int, ...]: ...",
               "@overload", "def stride(self, dim: builtins.int) -> builtins.int: ..."],
    "__getitem__": ["def __getitem__(self, key: _Index) -> Tensor: ..."],
    "__setitem__": ["def __setitem__(self, key: _Index, value: _Operand | np.ndarray[Any, Any]) -> None: ..."],
    "__matmul__": ["def __matmul__(self, other: Tensor) -> Tensor: ..."],
    "__rmatmul__": ["def __rmatmul__(self, other: Tensor) -> Tensor: ..."],
}  # fmt: skip


def annotation_text(annotation: Any) -> str:
    """An annotation with names that the stub knows; Any where it has others."""
    if annotation is inspect.Parameter.empty:
        return "Any"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    known = True

    class Names(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            return self.visit_Name(ast.Name(node.attr))

        def visit_Name(self, node: ast.Name) -> ast.AST:
            nonlocal known
            name = NAMES.get(node.id, node.id)
            known &= name in TYPING | BUILTIN | OURS or name.startswith(("_", "np."))
            return ast.Name(f"builtins.{name}" if name in ("bool", "int", "float", "complex", "slice") else name)

    try:
        shown = ast.unparse(Names().visit(ast.parse(text, mode="eval")))
    except SyntaxError:
        return "Any"
    return shown if known else "Any"


def parameter(name: str, function: str, declared: inspect.Parameter) -> str:
    """A parameter with its type and default."""
    text = annotation_text(declared.annotation)
    if declared.kind is declared.VAR_POSITIONAL:
        sizes = name in SIZES or function in (
            "reshape",
            "view",
            "expand",
            "permute",
            "repeat",
            "tile",
            "flip",
            "resize_",
        )
        return f"*{name}: {'_Ints' if sizes and text == 'Any' else text}"
    if declared.kind is declared.VAR_KEYWORD:
        return f"**{name}: {text}"
    if declared.default is None and text != "Any" and "None" not in text and text != "_Dims":
        text += " | None"
    return f"{name}: {text}" + (
        f" = {default_text(declared.default)}" if declared.default is not declared.empty else ""
    )


def default_text(value: Any) -> str:
    """A default as a stub may hold it: a number, string, None or tuple of them; `...` for anything else."""
    try:
        same = ast.literal_eval(repr(value)) == value
    except (SyntaxError, ValueError):
        return "..."
    return repr(value) if same else "..."


def definition(name: str, function: Any, method: bool, returns: str | None = None) -> str:
    """The stub's line for a function, or for one that is bound as a method."""
    signature = signature_of(name, function, method)
    if signature is None:
        return f"def {name}({'self, ' if method else ''}*args: Any, **kwargs: Any) -> {returns or 'Any'}: ..."
    parts, starred, only = [], False, False
    for index, argument in enumerate(signature.parameters.values()):
        if argument.kind is argument.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred |= argument.kind in (argument.KEYWORD_ONLY, argument.VAR_POSITIONAL)
        if only and argument.kind is not argument.POSITIONAL_ONLY:
            parts.append("/")
        only = argument.kind is argument.POSITIONAL_ONLY
        parts.append("self" if method and index == 0 else parameter(argument.name, name, argument))
    if returns is None:
        returns = RETURNS.get(name) or ("Tensor" if signature.return_annotation is signature.empty
                                        else annotation_text(signature.return_annotation))  # fmt: skip
    return f"def {name}({', '.join(parts + ['/'] * only)}) -> {returns}: ..."


def signature_of(name: str, function: Any, method: bool) -> inspect.Signature | None:
    """A function's signature; that of a method in place from the method that it is the in-place form of."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return None
    if name.endswith("_") and not name.startswith(
        "_"
    ):  # the in-place form has the parameters of the other, but for `out`
        parameters = [p for p in signature.parameters.values() if p.name != "out"]
        return signature.replace(parameters=parameters)
    return signature


def function_lines(name: str, function: Any, method: bool) -> list[str]:
    """The stub's lines for a function or method, with its overloads."""
    if method and name in METHODS:
        return METHODS[name]
    if forms := get_overloads(inspect.unwrap(function)):
        returned = [annotation_text(inspect.signature(form).return_annotation) for form in forms]
        defined = [definition(name, form, method, returns) for form, returns in zip(forms, returned, strict=True)]
        return [line for shown in dict.fromkeys(defined) for line in ("@overload", shown)]
    if name not in RESULTS:
        return [definition(name, function, method)]
    result, me = f"_{name}_result", "self" if method else "input: Tensor"
    if name not in WHOLE:
        return [definition(name, function, method, result)]
    lines = ["@overload", f"def {name}({me}) -> Tensor: ..."]
    lines += ["@overload", f"def {name}({me}, dim: builtins.int, keepdim: builtins.bool = False, *, "
              f"out: tuple[Tensor, Tensor] | None = None) -> {result}: ..."]  # fmt: skip
    if name in PAIRED:
        lines += ["@overload", f"def {name}({me}, other: Tensor, *, out: Tensor | None = None) -> Tensor: ..."]
    return lines


def documented(lines: list[str], function: Any) -> list[str]:
    """The lines of a function, each form with the docstring's summary, the last one also with the function's file.

    "Go to definition" ends in the stub; the file says where to go on.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename) if code is not None else PACKAGE
    place = f"  # {path.relative_to(PACKAGE.parent)}" if path.is_file() else ""
    text = summary(inspect.getdoc(function))
    found = []
    for index, line in enumerate(lines):
        found.append(line.removesuffix(" ...") if text and line.endswith(": ...") else line)
        found[-1] += place * (index == len(lines) - 1)
        found += [f"    {text}"] * (found[-1].startswith("def ") and bool(text))
    return found


def first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def summary(docstring: str | None) -> str:
    """The first paragraph of a docstring, as a docstring; "" for none."""
    text = first_paragraph(docstring or "").replace("\\", "\\\\")
    return f'"""{text}"""' if text else ""


def operator(name: str) -> list[str] | None:
    """The stub's line for an operator; None for what is none."""
    if not name.startswith("__"):
        return None
    bare = name.strip("_")
    if bare in COMPARISONS:
        ignore = "  # type: ignore[override]" if bare in ("eq", "ne") else ""
        return [f"def {name}(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...{ignore}"]
    if bare in ARITHMETIC or (bare[:1] in "ri" and bare[1:] in ARITHMETIC):
        return [f"def {name}(self, other: _Operand) -> Tensor: ..."]
    return None


def methods(defined: set[str]) -> list[str]:
    """The stub's lines for what Tensor has beyond its source, `defined`."""
    lines = []
    for name, value in sorted(vars(Tensor).items()):
        inherited = name in vars(object) and name.strip("_") not in COMPARISONS
        if name in defined or inherited or (name.startswith("__") and not callable(value)):
            continue
        if isinstance(value, property):
            returns = annotation_text(inspect.signature(value.fget).return_annotation) if value.fget else "Any"
            lines += ["@property", *documented([f"def {name}(self) -> {returns}: ..."], value.fget or value)]
            if value.fset is not None:
                value_parameter = [*inspect.signature(value.fset).parameters.values()][1]
                lines += [
                    f"@{name}.setter",
                    f"def {name}(self, {parameter('value', name, value_parameter)}) -> None: ...",
                ]
        elif callable(value):
            lines += operator(name) or documented(function_lines(name, value, method=True), value)
    return lines


def results(names: Iterable[str]) -> list[str]:
    """Classes of named results."""
    lines = []
    for name in names:
        lines += [f"class _{name}_result(NamedTuple):", *(f"    {field}: Tensor" for field in RESULTS[name].split())]
    return lines


def bare(node: ast.AST) -> ast.AST:
    """A definition without its body; a class without its members' bodies."""
    if isinstance(node, ast.FunctionDef):
        text = ast.get_docstring(node)
        node.body = [ast.Expr(ast.Constant(first_paragraph(text) if text else ...))]
        for argument in [*node.args.args, *node.args.kwonlyargs]:
            if argument.annotation is not None:
                argument.annotation = ast.Name(annotation_text(ast.unparse(argument.annotation)))
        node.returns = ast.Name(annotation_text(ast.unparse(node.returns))) if node.returns is not None else None
    elif isinstance(node, ast.ClassDef):
        found = [ast.parse(f"{name}: Any").body[0] for name in slots(node)]
        text = ast.get_docstring(node)
        found[:0] = [ast.Expr(ast.Constant(first_paragraph(text)))] if text else []
        node.body = found + [bare(child) for child in node.body if not is_text(child)] or [ast.Expr(ast.Constant(...))]
    return node


def slots(node: ast.ClassDef) -> list[str]:
    """The attributes that a class lists in `__slots__` and does not annotate."""
    listed = [
        ast.literal_eval(child.value)
        for child in node.body
        if isinstance(child, ast.Assign) and "__slots__" in names(child)
    ]
    typed = {name for child in node.body if isinstance(child, ast.AnnAssign) for name in names(child)}
    return [name for some in listed for name in some if name not in typed and not name.startswith("__")]


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def tensor_stub() -> str:
    """The text of tdt/_core/tensor.pyi."""
    body: list[str] = [HEAD + OUR_IMPORTS, ALIASES, *results(RESULTS)]
    for node in ast.parse(SOURCE.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            special = isinstance(node, ast.ClassDef) and node.name == "Tensor"
            if special:
                node.body = [child for child in node.body if not set(names(child)) & METHODS.keys()]
            body.append(ast.unparse(bare(node)).replace(":\n        ...", ": ..."))
            if special:
                for name in ("size", "stride"):
                    body += [f"    {line}" for line in documented(METHODS[name], getattr(Tensor, name))]
                defined = {name for child in node.body for name in names(child)} | {"size", "stride"}
                body += [f"    {line}" for line in methods(defined)]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            body += [f"{target.id}: Any" for target in targets if isinstance(target, ast.Name)]
    return "\n".join(body) + "\n"


def names(node: ast.AST) -> list[str]:
    """The names that a statement of a class body defines."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def root_stub() -> str:
    """The text of tdt/__init__.pyi."""
    body = [HEAD + OUR_IMPORTS + OUR_OWN, *(f"from tdt import {name} as {name}" for name in MODULES.split())]
    body += [f"from tdt.compat import {name} as {name}" for name in SHIMS.split()]
    body += ["from tdt._about import __version__ as __version__"]
    lines, results_of = [], []
    for name, value in sorted(vars(_public).items()):
        if name.startswith("_") or f"import {name} as {name}\n" in OUR_IMPORTS:
            continue
        if isinstance(value, type) and value.__module__ in ("tdt", "torch"):  # made at run time
            base = "Tensor" if type(value).__name__ == "TensorType" else value.__base__.__name__
            lines.append(f"class {name}({base}): ...")
        elif isinstance(value, type):
            body.append(f"from {value.__module__} import {value.__name__} as {name}")
        elif inspect.isfunction(value) and "Callable[P" in str(inspect.signature(value).return_annotation):
            body.append(f"from {value.__module__} import {name} as {name}")  # its type variables are there
        elif inspect.isfunction(value):
            lines += documented(function_lines(name, value, method=False), value)
            results_of += [name] if name in RESULTS else []
        else:
            kind = type(value).__name__
            lines.append(
                f"{name}: {NAMES.get(kind, kind) if kind in OURS else {'float': 'builtins.float'}.get(kind, 'Any')}"
            )
    shared = ", ".join(f"_{name}_result as _{name}_result" for name in results_of)
    body.append(f"from tdt._core.tensor import {shared}")
    return "\n".join([*body, ALIASES, *lines]) + "\n"


STUBS = {SOURCE.with_suffix(".pyi"): tensor_stub, PACKAGE / "__init__.pyi": root_stub}

if __name__ == "__main__":
    for path, stub in STUBS.items():
        path.write_text(stub())

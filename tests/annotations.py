"""What the annotations of the public functions, methods and properties leave open.

    python -m tests.annotations                    how many there are in each namespace
    python -m tests.annotations tdt.nn tdt.optim   which, in the namespaces that begin so

A parameter or result without an annotation is left open, and one with `Any` or the bare `object` anywhere in it. The
parameters of NumPy's generic types (`np.ndarray[Any, Any]`) do not count. `tdt` itself and Tensor have stubs:
tests/test_type_info.py looks at those.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

ROOT = Path(__file__).parents[1]
OPEN = re.compile(r"\b(Any|object)\b")
NUMPY = re.compile(r"\bnp\.\w+\[[^\[\]]*\]")
# Methods whose signature Python's protocols fix.
PROTOCOLS = """
    __class_getitem__ __contains__ __delattr__ __delitem__ __eq__ __exit__ __ge__ __getattr__ __getattribute__ __getstate__
    __gt__ __hash__ __init_subclass__ __instancecheck__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ __set_name__
    __setattr__ __setstate__ __subclasscheck__ __torch_function__ __get__ __deepcopy__ __dir__ __repr__ __str__ __len__ __bool__
    """.split()


def public_modules() -> list[str]:
    """The names of the modules of tdt without an underscore at the front of a part: short ones first."""
    files = (path.relative_to(ROOT).with_suffix("").parts for path in (ROOT / "tdt").rglob("*.py"))
    names = {".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in files}
    return sorted((name for name in names if "._" not in name), key=lambda name: (name.count("."), name))


def exports(module: ModuleType) -> list[str]:
    """A module's `__all__`; without one, its own public functions and classes."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name, value in vars(module).items()
            if name[0] != "_" and getattr(value, "__module__", None) == module.__name__]  # fmt: skip


def functions(modules: list[str]) -> Iterator[tuple[str, FunctionType]]:
    """(public name, function) of the functions and methods that the modules export; those of tdt, each once."""
    exported = [
        (module, export, getattr(module, export))
        for module in map(importlib.import_module, modules)
        for export in exports(module)
    ]
    # Functions first, then classes, bases before what inherits from them: each member is reported once, where it is defined.
    exported.sort(key=lambda item: len(getattr(item[2], "__mro__", ())))
    visited: set[tuple[str, int]] = set()
    for module, export, value in exported:
        own = dict(members(value)) if isinstance(value, type) else {"": value}
        for member, function in own.items():
            function = inspect.unwrap(function) if callable(function) else function
            if not isinstance(function, FunctionType) or not (function.__module__ or "").startswith("tdt"):
                continue
            code = function.__code__
            generated = code.co_filename == "<string>"  # by dataclass, all at the same line
            place = (function.__qualname__ if generated else code.co_filename, code.co_firstlineno)
            if place not in visited:
                visited.add(place)
                yield ".".join(filter(None, (module.__name__, export, member))), function


def members(cls: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties of a class, its own and those of private bases, and its operators."""
    for base in reversed(cls.__mro__):
        private = "._" in f"{base.__module__}.{base.__name__}"
        if not base.__module__.startswith("tdt") or base.__name__ == "Tensor" or not (base is cls or private):
            continue
        for name, value in vars(base).items():
            if name[0] == "_" and (not name.endswith("__") or name in PROTOCOLS):
                continue
            if isinstance(value, (property, functools.cached_property)):
                value = value.fget if isinstance(value, property) else value.func
            yield name, value.__func__ if isinstance(value, (classmethod, staticmethod)) else value


def left_open(function: FunctionType) -> list[str]:
    """The parameters, and "return", that have no annotation or one with Any or object; those of overloads, if it has any."""
    return sorted({name for form in typing.get_overloads(function) or [function] for name in _left_open(form)})


def _left_open(function: typing.Callable[..., object]) -> Iterator[str]:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names = [*code.co_varnames[:count], "return"]
    if function.__name__ in ("__init__", "__init_subclass__"):
        names.remove("return")
    if names and names[0] in ("self", "cls", "mcs"):
        del names[0]
    for name in names:
        annotation = function.__annotations__.get(name, "Any")
        shown = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        if OPEN.search(shown) and OPEN.search(NUMPY.sub("", shown)):
            yield name


def found(skip: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Public name → what its annotations leave open, for all modules but those whose names begin with one of `skip`."""
    modules = [
        name for name in public_modules() if name != "tdt" and not f"{name}.".startswith(tuple(f"{s}." for s in skip))
    ]
    return {name: names for name, function in functions(modules) if (names := left_open(function))}


if __name__ == "__main__":
    everything = found()
    if sys.argv[1:]:
        for name, names in everything.items():
            if f"{name}.".startswith(tuple(f"{namespace}." for namespace in sys.argv[1:])):
                print(f"{name}: {', '.join(names)}")
    else:
        for namespace, number in Counter(".".join(name.split(".")[:2]) for name in everything).most_common():
            print(f"{number:5d}  {namespace}")
        print(f"{len(everything):5d}  together")

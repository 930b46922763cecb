"""What the installed wheel of CuPy offers, a line a name: `python -m tests.gpu.listing > tests/gpu/standin/wheel.txt`.

Functions with their parameters (a default is written as 0, whatever it is), ufuncs with their loops, methods of ndarray. The
stand-in takes what it accepts from this file, so that what the wheel refuses fails without a GPU.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

MODULES = ("cupy", "cupy.linalg", "cupy.fft", "cupy.lib.stride_tricks", "cupyx", "cupyx.scipy.special",
           "cupyx.scipy.linalg", "cupyx.scipy.fft")  # fmt: skip


def listing() -> Iterator[str]:
    """The lines of `wheel.txt`."""
    import cupy

    yield f"# cupy {cupy.__version__}"
    for module in MODULES:
        found = importlib.import_module(module)
        for name in sorted(vars(found)):
            if not name.startswith("_") and (line := _line(getattr(found, name), cupy.ufunc)):
                yield f"{module}.{name}{line}"
    for name in sorted(dir(cupy.ndarray)):
        if not name.startswith("_") and callable(member := getattr(cupy.ndarray, name)):
            yield f"cupy.ndarray.{name}{_documented(member, name)}"


def _line(value: object, ufunc: type) -> str | None:
    """What follows the name; None for modules, constants and types, which are NumPy's."""
    if isinstance(value, ufunc):
        return " " + " ".join(value.types)  # type: ignore[attr-defined]
    if inspect.ismodule(value) or inspect.isclass(value) or not callable(value):
        return None
    try:
        return _plain(inspect.signature(value))
    except ValueError:  # compiled without a signature
        return _documented(value, value.__name__)  # type: ignore[attr-defined]


def _documented(value: object, name: str) -> str:
    """The parameters that the first line of a docstring has, without those without a type or name that Python knows."""
    first = (getattr(value, "__doc__", None) or "").partition("\n")[0]
    found = re.match(rf"(?:\w+\.)?{name}\((.*?)\)(?: ->.*)?$", first)
    if not found:
        return "(*args, **kwargs)"
    parts = [part.split("=")[0].split()[-1] + "=0" * ("=" in part) for part in found[1].split(", ") if part]
    return f"({', '.join(part for part in parts if part != 'self')})"


def _plain(signature: inspect.Signature) -> str:
    empty = inspect.Parameter.empty
    parameters = [
        p.replace(annotation=empty, default=empty if p.default is empty else 0) for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=empty))


if __name__ == "__main__":
    print("\n".join(listing()))

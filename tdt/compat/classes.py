"""`torch.classes`: classes that C++ code registers. tdt loads no C++, so each name is refused."""

from __future__ import annotations

from tdt.compat._refusal import refused

_REASON = "tdt loads no classes written in C++"
load_library = refused("classes.load_library", _REASON)
loaded_libraries: set[str] = set()


class Namespace:
    """A namespace of classes, which is empty."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"Tried to instantiate class '{self.name}.{name}', but it does not exist: {_REASON}")


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(name)
    return Namespace(name)

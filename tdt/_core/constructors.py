"""Constructors that layers or distributions share, under each class's own name."""

from __future__ import annotations

from types import FunctionType


def own_constructor(cls: type) -> None:
    """Give `cls` a copy of the `__init__` that it inherits from Module or a private class of tdt, named after `cls`.

    So a wrong call of `Conv2d` is reported as one of `Conv2d.__init__()`, not of the base class that it shares with
    `Conv1d`.
    """
    inherited = cls.__init__  # type: ignore[misc]
    if "__init__" in vars(cls) or not isinstance(inherited, FunctionType) or not cls.__module__.startswith("tdt."):
        return
    owner = inherited.__qualname__.rpartition(".")[0]
    if not (owner == "Module" or owner.startswith("_")) or cls.__name__.startswith("_"):
        return
    name = f"{cls.__qualname__}.__init__"
    code = inherited.__code__.replace(co_qualname=name)
    own = FunctionType(code, inherited.__globals__, "__init__", inherited.__defaults__, inherited.__closure__)
    own.__qualname__, own.__module__, own.__doc__ = name, cls.__module__, inherited.__doc__
    own.__kwdefaults__, own.__annotations__ = inherited.__kwdefaults__, inherited.__annotations__
    setattr(cls, "__init__", own)  # noqa: B010  (an assignment is an error to type checkers)

"""Containers: modules that hold modules or parameters, in order or by name."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self

from tdt._core.tensor import Tensor
from tdt.nn.modules.module import Module, indent, typename
from tdt.nn.parameter import Parameter


class _Ordered(Module):
    """What Sequential and ModuleList share: children named "0", "1", … reached by position."""

    def _key(self, index: int) -> str:
        """The name of child `index`, counted from either end; IndexError outside."""
        size, index = len(self), operator.index(index)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range for {type(self).__name__} of {size} modules")
        return next(islice(self._modules, index % size, None))

    def _renumber(self, modules: Iterable[Module]) -> None:
        self.__dict__["_modules"] = {str(i): m for i, m in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key(idx)]
        for key in keys:
            del self._modules[key]
        self._renumber(self)  # names too become numbers, as in PyTorch

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, module: Module) -> Self:
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self | None:
        """Put a module before position `index`; those behind move up by one.

        Raises:
            AssertionError: when `module` is not a Module.
            IndexError: when `index` is out of range.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}; {type(self).__name__} has {size} modules")
        if index == size:
            return self.append(module)
        modules = list(self)
        modules.insert(index if index >= 0 else index + size, module)
        self._renumber(modules)
        return self

    def _extend(self, modules: Iterable[Module]) -> Self:
        items = _iterable(modules, f"{type(self).__name__}.extend")
        for module in items if isinstance(items, Iterator) else list(items):  # which may be this one itself
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module

    def __getitem__(self, index: int | slice) -> Any:
        raise NotImplementedError


class Sequential(_Ordered):
    """Modules called one after the other: `Sequential(a, b)`, `Sequential(OrderedDict(name=a, …))`, or by `add_module`.

    Shape: input as the first module takes it; result as the last one returns it.

    >>> import tdt
    >>> from tdt import nn
    >>> nn.Sequential(nn.Flatten(), nn.Linear(4, 2))(tdt.ones(3, 2, 2)).shape
    tdt.Size([3, 2])
    """

    def __init__(self, *args: Module | OrderedDict[str, Module]):
        super().__init__()
        named: Any = (
            args[0].items()
            if len(args) == 1 and isinstance(args[0], OrderedDict)
            else ((str(i), m) for i, m in enumerate(args))
        )
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Tensor:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def _times(self, factor: int) -> list[Module]:
        if not isinstance(factor, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(factor)}")
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {type(self)}")
        return list(self) * factor

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*self._times(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(self._times(other)[len(self) :])

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add several modules at the end; returns self."""
        return self._extend(sequential)


class ModuleList(_Ordered):
    """A list of modules whose parameters the module that holds it finds.

    >>> from tdt import nn
    >>> len(list(nn.ModuleList([nn.Linear(2, 2) for _ in range(3)]).parameters()))
    6
    """

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end; returns self."""
        return self._extend(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`, as `list.insert` does."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def __repr__(self) -> str:
        """Neighbours that print alike are printed once, with their number."""
        runs: list[list[Any]] = []
        for i, text in enumerate(repr(m) for m in self):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [f"({a}): {indent(t)}" if a == b else f"({a}-{b}): {b - a + 1} x {indent(t)}" for a, b, t in runs]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules, in the order of insertion, whose parameters the module that holds it finds.

    >>> from tdt import nn
    >>> list(nn.ModuleDict({"act": nn.ReLU()}).keys())
    ['act']
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        """Names of the modules, in the order of insertion."""
        return self._modules.keys()

    def values(self) -> Any:
        """Modules in the order of insertion."""
        return self._modules.values()

    def items(self) -> Any:
        """Pairs of name and module, in the order of insertion."""
        return self._modules.items()

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take a module out and return it."""
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add the modules of a mapping, or of (name, module) pairs; those of the same name are replaced."""
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


class ParameterList(Module):
    """List whose tensors are parameters of the module that holds it; other values may stand beside them.

    A tensor that is put in becomes a Parameter.

    Raises:
        RuntimeError: when the list is called like a layer.

    >>> import tdt
    >>> weights = tdt.nn.ParameterList([tdt.zeros(2), tdt.zeros(3, 1)])
    >>> [name for name, _ in weights.named_parameters()]
    ['0', '1']
    >>> weights
    ParameterList(
        (0): Parameter containing: [tdt.float32 of size 2]
        (1): Parameter containing: [tdt.float32 of size 3x1]
    )
    """

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: int) -> str:
        size, index = self._size, operator.index(index)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range for ParameterList of {size} entries")
        return str(index % size)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(len(self))[idx])
        return getattr(self, self._key(idx))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, self._key(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def append(self, value: Any) -> Self:
        """Add an entry at the end; returns self."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Append several entries; returns self.

        Raises:
            TypeError: when `values` is a tensor or not iterable.
        """
        if isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(_iterable(values, "ParameterList.extend")):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return _entries(enumerate(self), lambda p: p.dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Dictionary whose tensors are parameters of the module that holds it; other values may stand beside them.

    A tensor that is put in becomes a Parameter. Keys are strings, in the order of insertion; the entries of a plain
    dict
    are inserted in the order of their names.

    Raises:
        RuntimeError: when the dictionary is called like a layer.

    >>> import tdt
    >>> weights = tdt.nn.ParameterDict({"left": tdt.zeros(2), "right": tdt.zeros(3)})
    >>> sum(p.numel() for p in weights.parameters())
    5
    """

    def __init__(self, parameters: Any = None):
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _checked(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                            f"'{type(key).__name__}').")  # fmt: skip
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._checked(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._checked(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new dictionary of the same Parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The entry of `key`, which is `default` if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove every entry."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take an entry out and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last entry and return it with its key.

        Raises:
            KeyError: when the dictionary is empty.
        """
        if not self._keys:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The entry of `key`, or `default`."""
        return self[key] if key in self else default  # noqa: SIM401

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with `default` under every one of `keys`."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """Keys in the order of insertion."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(key, entry) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Entries in the order of insertion."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add the entries of a mapping, or of (key, entry) pairs; those of the same key are replaced."""
        in_order = isinstance(parameters, OrderedDict) or not isinstance(parameters, Mapping)
        pairs = _pairs(parameters, "ParameterDict")
        for key, value in pairs if in_order else sorted(pairs):
            self[key] = value

    def extra_repr(self) -> str:
        return _entries(self.items(), typename)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        return self.copy().__ior__(other)

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        return other.copy().__ior__(self)

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self


class Container(Module):
    """Deprecated base class of containers, modules by name; use `Module`.

    >>> import warnings, tdt
    >>> with warnings.catch_warnings(action="ignore"):
    ...     box = tdt.nn.Container(act=tdt.nn.ReLU())
    >>> box.act
    ReLU()
    """

    def __init__(self, **kwargs: Any):
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _iterable(values: Any, what: str, of: str = "iterable") -> Any:
    if not isinstance(values, Iterable):
        raise TypeError(f"{what} should be called with an {of}, but got {type(values).__name__}")
    return values


def _pairs(values: Any, kind: str) -> Iterable[tuple[str, Any]]:
    """The (key, value) pairs of a mapping, of a container of ours, or of a sequence of such pairs."""
    if isinstance(values, (Mapping, ModuleDict, ParameterDict)):
        return values.items()
    pairs = list(_iterable(values, f"{kind}.update", "iterable of key/value pairs"))
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{kind} update sequence element #{i} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:  # type: ignore[arg-type]
            raise ValueError(f"{kind} update sequence element #{i} has length {len(pair)}; 2 is required")  # type: ignore[arg-type]
    return pairs


def _entries(entries: Iterable[tuple[Any, Any]], kind: Callable[[Tensor], Any]) -> str:
    """A line for each entry of a ParameterList or ParameterDict, as `repr` shows it."""
    lines = []
    for key, value in entries:
        if isinstance(value, Tensor):
            what = "Parameter" if isinstance(value, Parameter) else "Tensor"
            where = f" ({value.device})" if value.device.type == "cuda" else ""
            size = "x".join(str(n) for n in value.shape)
            lines.append(f"  ({key}): {what} containing: [{kind(value)} of size {size}{where}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(value).__name__}")
    return "\n".join(lines)

"""Help, tracebacks, errors of wrong calls and a search of the sources name a layer or function as the public API does."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import FunctionType

import pytest

import tdt
from tests.docstrings import ROOMS, entries, exports

ENTRIES = {
    entry.name: entry.value
    for entry in entries()
    if entry.room.startswith(("tdt.nn", "tdt.optim")) and entry.room in ROOMS and not entry.is_method
}
OWN = {name: value for name, value in ENTRIES.items() if not value.__module__.startswith(("tdt._ops", "tdt._core"))}
# Created by `__new__`: that is what Python names, as it does for PyTorch's.
BY_NEW = {"tdt.nn.utils.rnn.PackedSequence", "tdt.nn.attention.SDPBackend"}


@pytest.mark.parametrize("module", ["tdt", "tdt.nn.functional", "tdt.fft", "tdt.signal.windows"])
def test_functions_of_nn_random_and_spectral_are_defined_by_their_public_names(module):
    aliases = {"native_channel_shuffle", "grid_sampler_2d", "grid_sampler_3d"}
    home = importlib.import_module(module)
    wrong = {}
    for name in set(exports(home)) - aliases:
        function = getattr(home, name)
        code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
        ours = code and re.search(r"/_ops/(nn|random|spectral)/|tdt/fft.py|tdt/signal/", code.co_filename)
        if ours and {function.__name__, code.co_name} != {name}:
            wrong[name] = function.__name__, code.co_name
    assert not wrong


def test_functions_and_classes_have_their_public_names():
    wrong = {
        name: value.__name__
        for name, value in OWN.items()
        if not {name.rpartition(".")[2]}
        == {value.__name__, value.__code__.co_name if isinstance(value, FunctionType) else value.__name__}
    }
    assert not wrong


def test_a_search_of_the_sources_finds_every_name():
    names = {*OWN, *(f"tdt.nn.init.{name}" for name in tdt.nn.init.__all__), "tdt.nn.utils.clip_grad_norm"}
    text = "\n".join(path.read_text() for path in Path(tdt.__file__).parent.rglob("*.py"))
    defined = set(re.findall(r"^(?:def |class )?(\w+)\b(?=[(:\[]|.* = )", text, re.MULTILINE))
    assert {name.rpartition(".")[2] for name in names} <= defined


@pytest.mark.parametrize("old", ["uniform", "xavier_normal", "kaiming_uniform"])
def test_a_deprecated_alias_has_its_own_name(old: str):
    alias = getattr(tdt.nn.init, old)
    assert (alias.__name__, alias.__qualname__, alias.__code__.co_name) == (old, old, old)


CLASSES = {name: value for name, value in OWN.items() if isinstance(value, type) and name not in BY_NEW}


def test_an_error_of_a_wrong_call_names_the_class():
    for cls in CLASSES.values():
        parameters = [p for p in inspect.signature(cls).parameters.values() if p.kind is not p.VAR_KEYWORD]
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            continue
        with pytest.raises(TypeError, match=rf"^{cls.__name__}(\.__init__|\.__new__)?\(\) takes "):
            cls(*range(len(parameters) + 1))


def test_a_shared_constructor_keeps_its_signature():
    assert str(inspect.signature(tdt.nn.Conv2d)).startswith("(in_channels: 'int', out_channels: 'int', kernel_size:")
    assert inspect.signature(tdt.nn.Conv2d) == inspect.signature(tdt.nn.modules.conv._Conv)
    with pytest.raises(TypeError, match=r"^Conv2d.__init__\(\) missing 1 required positional argument: 'kernel_size'$"):
        tdt.nn.Conv2d(1, 2)


def test_a_class_of_the_user_is_left_as_it_is():
    class _Base(tdt.nn.Module):
        def __init__(self, size: int):
            super().__init__()

    class Layer(_Base):
        pass

    assert "__init__" not in vars(Layer)

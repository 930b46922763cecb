"""Docstrings of the public callables: summary, shapes, errors, source, example. What is required: tests/docstrings.py."""

from __future__ import annotations

import pytest

import tdt
from tdt import Tensor
from tests.docstrings import ROOMS, Entry, entries, incomplete, missing


@pytest.mark.parametrize("room", ROOMS)
def test_every_docstring_of_a_room_is_complete(room: str):
    found = [f"{entry.place}: {entry.name}: {', '.join(lacks)}" for entry, lacks in incomplete(room).items()]
    assert not found, "\n".join(found)


def test_every_callable_is_counted_once():
    names = [entry.name for entry in entries()]
    assert len({id(entry.value) for entry in entries()}) == len(names)
    assert {"tdt.add", "tdt.nn.Conv2d", "tdt.nn.init.zeros_", "tdt.optim.SGD"} <= set(names)
    assert "tdt.Tensor.add" not in names  # tdt.add is the function behind it


def complete(input: Tensor) -> Tensor:
    """Twice the given tensor.

    Shape: input (*); result the same.
    Raises:
        ValueError: where `input` has dimensions.

    >>> 1 + 1
    2
    """
    if input.ndim:
        raise ValueError("no dimensions, please")
    return input + input


def bare(input):
    return input


def pointing(input: int) -> int:
    """See `complete`.

    >>> 1
    1
    """
    return input


def silent(input: Tensor) -> Tensor:
    """Twice the given tensor."""
    if input.ndim:
        raise tdt.OutOfMemoryError("too large")
    return input + input


class Layer(tdt.nn.Module):
    """Layer that returns its input.

    >>> 1
    1
    """

    def __init__(self, size: int):
        super().__init__()
        if size < 0:
            raise ValueError("size")

    def forward(self, input: Tensor) -> Tensor:
        return input


@pytest.mark.parametrize(
    ("value", "lacks"),
    [
        (complete, []),
        (bare, ["docstring"]),
        (pointing, ["summary line"]),
        (silent, ["Raises: OutOfMemoryError", "example", "Shape:"]),
        (Layer, ["Raises: ValueError", "Shape:"]),
    ],
)
def test_the_check_finds_what_a_docstring_lacks(value: object, lacks: list[str]):
    assert missing(Entry("tdt", "tdt.value", value)) == lacks


def test_a_method_from_a_paper_needs_its_source():
    assert missing(Entry("tdt.nn.functional", "tdt.nn.functional.gelu", complete)) == ["Source:"]

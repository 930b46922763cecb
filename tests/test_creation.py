"""Tensors from data and filled ones: values, dtypes and refusals as PyTorch's, corner cases first."""

import warnings
from collections import deque

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()
INF, NAN = float("inf"), float("nan")

DATA = """
tensor([None]); tensor(None); tensor([1.0, None]); tensor([None], dtype=lib.float32); tensor('a'); tensor(['a'])
tensor([1, 'a']); tensor(['a', 1]); tensor([[1.0], ['a']]); tensor([['a']]); tensor([True, b'a'])
tensor(b'ab'); tensor({1: 2}); tensor({1, 2}); tensor(object()); tensor(iter([1])); tensor([1, [2]])
tensor([1.0, [2]]); tensor([[1], 2]); tensor([[1, 2], [3]]); tensor([]); tensor([[], []]); tensor(())
tensor(range(3)); tensor(deque([1, 2])); tensor(bytearray(b'ab')); tensor(memoryview(b'ab'))
tensor([bytearray(b'ab')]); tensor([range(2), range(2)]); tensor(2**63); tensor([2**64]); tensor(-2**63 - 1)
tensor(2**63, dtype=lib.int32); tensor(2**31, dtype=lib.int32); tensor(2**63, dtype=lib.uint64)
tensor(2**64, dtype=lib.float32); tensor([2**63, 1.0]); tensor([NAN], dtype=lib.int64); tensor(INF, dtype=lib.int32)
tensor(1e20, dtype=lib.int64); tensor(-0.5, dtype=lib.uint8); tensor(-1, dtype=lib.uint8)
tensor(-256, dtype=lib.uint8); tensor(-1.5, dtype=lib.int8); tensor(1e40); tensor(1j, dtype=lib.float32)
tensor([1j], dtype=lib.int64); tensor(1 + 0j, dtype=lib.int32); tensor(1j, dtype=lib.bool)
tensor([lib.tensor(1), lib.tensor(2.5)]); tensor([lib.tensor([[1]])]); tensor([lib.tensor([1]), lib.tensor([2])])
tensor([np.array([1, 2]), [3, 4]]); tensor([np.ones((2, 2), np.float32)]); tensor([np.float32(1), 2.0])
tensor([np.int8(1)]); tensor([1, 2], dtype=float); tensor([1, 2], dtype=int); tensor([1, 2], dtype=bool)
tensor([1, 2], dtype=complex); ones(2, dtype=float); tensor([1, 0]).to(float); as_tensor(None); asarray(None)
asarray(b'abcd', dtype=lib.uint8); asarray(bytearray(b'abcd'), dtype=lib.int32); ones(2).new_tensor(lib.tensor([1]))
ones(2).new_tensor([1, 2]); ones(2, dtype=lib.int64).new_tensor([1.5])
"""

FILLED = """
full((2,), NAN, dtype=lib.int64); full((2,), 300, dtype=lib.uint8); full((2,), -255, dtype=lib.uint8)
full((2,), -256, dtype=lib.uint8); full((2,), 300, dtype=lib.int8); full((2,), 1e40)
full((2,), 1e40, dtype=lib.bfloat16); full((2,), 70000.0, dtype=lib.float16); full((2,), INF)
full((2,), INF, dtype=lib.int32); full((2,), 2**63); full((2,), 2**63, dtype=lib.uint64)
full((2,), 2**63, dtype=lib.float32); full((2,), 1j); full((2,), 1j, dtype=lib.float32)
full((2,), 1 + 0j, dtype=lib.float32); full((2,), 1j, dtype=lib.bool); full((2,), 'a'); full((2,), None); full(2, 1)
full((2,), lib.tensor(3)); full((2,), lib.tensor([3.0])); full((2,), np.float32(2))
full((2,), lib.tensor(1.5), dtype=lib.int64); full((2,), lib.tensor(1.5, requires_grad=True))
full((2,), 3, out=lib.empty(2)); full_like(lib.ones(2), 1e40); full_like(lib.ones(2, dtype=lib.int8), 300)
full_like(lib.ones(2, dtype=lib.uint8), -1); full_like(lib.ones(2), None); full_like([1], 5)
full_like(lib.ones(2), 1j); ones(2).new_full((2,), 1e40); ones(2).new_full(2, 3)
ones(2, dtype=lib.int32).new_full((2,), 3.5); scalar_tensor(1e40); scalar_tensor(2**63); scalar_tensor([1])
scalar_tensor(1j); zeros(); zeros(size=(2,)); zeros(2, size=(2,)); zeros([]); zeros(2.0); zeros('a'); zeros(-1)
zeros_like(5); ones(2).new_zeros(); ones(2).new_zeros(size=(2, 3))
empty(1, 2, 3, 4, memory_format=lib.channels_last).stride(); empty(2, memory_format=lib.channels_last)
empty_strided((2,), (1, 2)); empty_strided((2,), (-1,)); empty_strided((-2,), (1,))
empty_strided((2, 3), (1, 2)).stride(); arange(); arange(end=3); arange(1j); arange(None); arange(3, dtype=lib.bool)
arange(2, -1, -1); arange(5, 1, -2); arange(0, -3, -1); arange(3, 3, -1); arange(-1, 2**61, 2**60); arange(2, -1, -1.0)
arange(2, -1, -1, dtype=lib.float64); arange(2, -1, -1, dtype=lib.int32); arange(True, 3); arange(3, 1); arange(0, 3, -1)
arange(0.0, 3); arange(-0.0, 3); arange(0.0, 5, 2); arange(lib.tensor(0.0), 3); arange(0.0, 3, dtype=lib.int64)
randint(5.0, (2,)); randint(1.0, 5, (2,)); randint(lib.tensor(1), (2,))
linspace(0, 1, 2.5); linspace(0, 1j, 3, dtype=lib.float32); linspace(0, 1j, 3); linspace(0, 1, 3, dtype=lib.bool)
linspace(0, 1, -1); ones(2)['a']; ones(2)[1.5]
"""

NUMBERS = """
float(lib.tensor(1 + 2j)); float(lib.tensor(1 + 0j)); int(lib.tensor(1 + 2j)); int(lib.tensor(2 + 0j))
complex(lib.tensor(1 + 2j)); float(lib.tensor([1, 2])); int(lib.tensor([])); complex(lib.tensor([1, 2]))
float(lib.tensor([1.5])); int(lib.tensor([[2]])); int(lib.tensor(NAN)); int(lib.tensor(1.9)); float(lib.tensor(True))
"""


def cases(text):
    return [case for line in text.strip().split("\n") for case in line.split("; ")]


def account(lib, expression):
    """What an expression gives: shape, dtype and values, or the class of its error."""
    names = {"lib": lib, "np": np, "deque": deque, "INF": INF, "NAN": NAN}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(expression, names)
        except Exception as error:  # noqa: BLE001  (its class is compared)
            return type(error)
    if not isinstance(value, (tdt.Tensor, torch.Tensor)):
        return value
    return tuple(value.shape), str(value.dtype).partition(".")[2], repr(value.tolist())


@pytest.mark.parametrize("expression", [f"lib.{case}" for case in cases(DATA) + cases(FILLED)] + cases(NUMBERS))
def test_corner_cases_are_pytorchs(expression):
    assert account(tdt, expression) == account(torch, expression)


def test_several_values_in_one_element_are_refused_with_a_plain_message():
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        tdt.tensor([tdt.tensor([1, 2]), tdt.tensor([3, 4])])

"""Small draws by their kernels: PyTorch's bits, whatever is drawn between them, and the same with kernels off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

OFTEN = 60  # calls, of which the last ones are computed by kernels

INTEGERS = {"int64": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1), "int16": (-300, 300), "int8": (-5, 100),
            "uint8": (0, 256), "bool": (0, 2), "float32": (-(2**24), 2**24), "float64": (-(2**53), 2**53),
            "float16": (0, 9)}  # fmt: skip
WEIGHTS = np.abs(np.random.default_rng(0).standard_normal((3, 70)))
WEIGHTS[:, ::3] = 0


def _draws() -> dict[str, Callable[[Any], Any]]:
    calls: dict[str, Callable[[Any], Any]] = {}
    for n in (0, 1, 2, 5, 15, 17, 700):
        calls |= {
            f"randint {n}": lambda t, n=n: t.randint(0, 10, (n,)),
            f"randint of {2**28} {n}": lambda t, n=n: t.randint(0, 2**28, (n,)),
            f"randint below {2**28} {n}": lambda t, n=n: t.randint(-9, 2**28 - 10, (n,)),
            f"randperm {n}": lambda t, n=n: t.randperm(n),
            f"rand {n}": lambda t, n=n: t.rand(n),
        }
    for n in (0, 1, 2, 7, 15):
        calls |= {
            f"randn {n}": lambda t, n=n: t.randn(n),
            f"randn {n} of float64": lambda t, n=n: t.randn(n, dtype=t.float64),
            f"normal_ {n}": lambda t, n=n: t.empty(n).normal_(1.5, 2.5),
        }
    for n in (7, 16, 40):
        calls |= {
            f"signs of zeros {n}": lambda t, n=n: t.empty(n).normal_(0, 0).signbit(),
            f"signs of zeros {n} of float64": lambda t, n=n: t.empty(n, dtype=t.float64).normal_(0, 0).signbit(),
            f"signs of zeros {n} of bfloat16": lambda t, n=n: t.empty(n, dtype=t.bfloat16).normal_(0, 0).signbit(),
        }
    for name, (low, high) in INTEGERS.items():
        calls[f"randint of {name}"] = lambda t, name=name, low=low, high=high: t.randint(
            low, high, (33,), dtype=getattr(t, name)
        ).double()
        calls[f"random_ of {name}"] = lambda t, name=name: t.empty(33, dtype=getattr(t, name)).random_().double()
    for kind in (np.float32, np.float64):
        calls[f"multinomial of {kind.__name__}"] = lambda t, kind=kind: t.multinomial(
            t.from_numpy(WEIGHTS.astype(kind)), 9, replacement=True
        )
    calls |= {
        "strided": lambda t: t.empty(6, 8).t().normal_(),
        "log_normal_": lambda t: t.empty(20).log_normal_(),
        "halves of pairs": lambda t: t.cat([t.randn(3), t.rand(2), t.randn(20), t.randn(1), t.empty(7).normal_(1.0)]),
    }
    return calls


CALLS = _draws()


@pytest.mark.parametrize("name", CALLS)
def test_small_draws_have_pytorchs_bits(name: str) -> None:
    torch = require_torch()
    tdt.manual_seed(5), torch.manual_seed(5)
    for _ in range(OFTEN if "halves" not in name else 3):
        ours, theirs = CALLS[name](tdt).numpy(), CALLS[name](torch).numpy()
        assert ours.dtype == theirs.dtype
        if "halves" in name:  # the twenty in the middle are computed in float32, where a few units are allowed
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(tdt.get_rng_state().numpy(), torch.get_rng_state().numpy())


@pytest.mark.parametrize("name", CALLS)
def test_small_draws_are_the_same_without_kernels(name: str) -> None:
    with tdt.backends.kernels(False):
        tdt.manual_seed(7)
        expected = [CALLS[name](tdt).numpy() for _ in range(3)]
    for _ in range(OFTEN):
        tdt.manual_seed(7)
        found = [CALLS[name](tdt).numpy() for _ in range(3)]
    for a, b in zip(found, expected, strict=True):
        if "halves" in name:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1.0, 2.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_invalid_weights_draw_nothing(weights: list[float]) -> None:
    for _ in range(OFTEN):  # the kernel is used by then
        tdt.multinomial(tdt.ones(4), 3, replacement=True)
    before = tdt.get_rng_state()
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        tdt.multinomial(tdt.tensor(weights), 5, replacement=True)
    assert tdt.equal(before, tdt.get_rng_state())


@pytest.mark.parametrize("name", ["rand_like", "randn_like"])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_numbers_like_a_tensor_are_those_of_its_shape(name, kind):
    def drawn(lib, shape, turned):
        dtype = getattr(lib, kind)
        x = lib.ones(shape, dtype=dtype, requires_grad=True)
        found = getattr(lib, name)(x.t() if turned else x)
        assert found.shape == (shape[::-1] if turned else shape)
        assert found.dtype is dtype
        assert not found.requires_grad
        other = getattr(lib, name)(x, dtype=lib.float32, requires_grad=True)
        assert other.requires_grad
        assert other.dtype is lib.float32
        return [*found.tolist(), *other.tolist()]

    for shape in ((3, 2), (5, 9)):
        for turned in (False, True):
            results = []
            for lib in (tdt, require_torch()):
                lib.manual_seed(3)
                results.append(drawn(lib, shape, turned))
            np.testing.assert_allclose(np.concatenate(results[0]), np.concatenate(results[1]), atol=1e-6)

"""How tensors print, beside PyTorch."""

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()
NAN, INF = float("nan"), float("inf")
VALUES = [
    [NAN, INF, 1], [NAN, 1.5], [INF, -INF, 2], [NAN], [1e10, NAN, 1], [100.0, INF], [1, -INF], [1e-8, NAN], [0.0, -0.0],
    [1e-45], [0.1, 1e5], [1 + 2j, complex(NAN, 1)], [complex(1, -INF), 1.5], [[1, -20], [300, 4]], [True, False], [],
]  # fmt: skip


@pytest.mark.parametrize("values", VALUES, ids=repr)
def test_a_tensor_prints_as_pytorchs(values):
    for name in ("complex64", "complex128") if complex in map(type, values) else ("float32", "float64", "bool"):
        ours = repr(tdt.tensor(values).to(getattr(tdt, name)))
        theirs = repr(torch.tensor(values).to(getattr(torch, name)))
        assert ours == theirs.replace("torch.", "tdt.")


@pytest.mark.parametrize("build", [lambda t: t.arange(2000), lambda t: t.zeros(0, 3), lambda t: t.tensor(3),
                                   lambda t: t.ones(30, 40), lambda t: t.ones(2, requires_grad=True) * 2,
                                   lambda t: t.arange(24).reshape(2, 3, 4)])  # fmt: skip
def test_shapes_and_notes_print_as_pytorchs(build):
    assert repr(build(tdt)) == repr(build(torch)).replace("torch.", "tdt.")


@pytest.mark.parametrize("write", [
    lambda lib: f"{lib.tensor(1.5)} {lib.tensor(2):3d} {lib.tensor(0.123456):.3f} {lib.tensor(True)}",
    lambda lib: f"{lib.tensor([1.5])}",
    lambda lib: f"{lib.tensor(1.5, requires_grad=True)}",
    lambda lib: f"{lib.nn.Parameter(lib.tensor(1.5))}",
    lambda lib: f"{lib.tensor([1.5]):.2f}",
    lambda lib: f"{lib.tensor(1.5):d}",
])  # fmt: skip
def test_formatting_is_pytorchs(write):
    told = []
    for lib in (tdt, torch):
        try:
            told.append(write(lib))
        except (TypeError, ValueError) as error:
            told.append(type(error))
    assert told[0] == told[1]

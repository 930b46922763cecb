"""How tensors print, beside PyTorch."""

import io
import math
import random
import re

import numpy as np
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
    texts = []
    for lib in (tdt, torch):
        try:
            texts.append(write(lib))
        except (TypeError, ValueError) as error:
            texts.append(type(error))
    assert texts[0] == texts[1]


SPECIAL = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1e-45,
    1e38,
    1e8,
    1e8 + 1,
    1000.0,
    1001.0,
    1e-4,
    9.9e-5,
    0.5,
    1.0,
    2.5,
    1 / 3,
    65504.0,
]


def numbers(rng, n):
    """`n` numbers of one kind: of any size, whole, special, all alike."""
    kinds = [rng.standard_normal(n) * 10.0 ** rng.integers(-6, 10), rng.integers(-5, 2000, n).astype(float),
             rng.choice(SPECIAL, n), np.full(n, rng.choice(SPECIAL)), rng.standard_normal(n)]  # fmt: skip
    values = kinds[rng.integers(5)]
    if n and rng.random() < 0.3:
        values[rng.integers(n)] = rng.choice(SPECIAL)
    return values


def printed_by(lib, values, kind, how, options):
    lib.set_printoptions(profile="default")
    x = lib.from_numpy(values).to(getattr(lib, kind))
    x = x.transpose(0, 1) if "t" in how and x.ndim > 1 else x
    x = x.requires_grad_() if "g" in how and (x.is_floating_point() or x.is_complex()) else x
    lib.set_printoptions(**options)
    try:
        # Where a line ends before what is noted behind the elements depends on how long the library's name is.
        return re.sub(r",\n\s*(?=(dtype|size|requires_grad)=)", ", ", repr(x).replace("torch.", "tdt."))
    finally:
        lib.set_printoptions(profile="default")


def test_any_tensor_prints_as_pytorchs_under_any_options():
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    for _ in range(250):
        kind = rng.choice("float32 float64 float16 bfloat16 int64 uint8 bool complex64 complex128".split())
        shape = tuple(rng.choice([0, 1, 2, 3, 5, 7, 30], rng.integers(4)))
        n = math.prod(shape)
        values = numbers(rng, n)
        if kind[0] in "iu":
            values = np.nan_to_num(values, posinf=0, neginf=0).clip(0, 200).astype(np.int64)
        elif kind[0] == "c":
            values = values.astype(complex)
            values.imag = numbers(rng, n)
        options = {} if rng.random() < 0.5 else {
            "profile": rng.choice([None, "default", "short", "full"]), "linewidth": rng.choice([None, 40, 120, 10]),
            "precision": rng.choice([None, 0, 1, 6, 10]), "edgeitems": rng.choice([None, 1, 2, 4, 0]),
            "threshold": rng.choice([None, 5, 100]), "sci_mode": rng.choice([None, True, False]),
        }  # fmt: skip
        how = rng.choice(["", "t", "g", "tg"])
        case = [values.reshape(shape), str(kind), how, options]
        with np.errstate(all="ignore"):
            assert printed_by(tdt, *case) == printed_by(torch, *case), case


def test_notes_go_to_a_new_line_where_the_last_one_is_full():
    lines = repr(tdt.arange(14, dtype=tdt.int32) + 100).splitlines()
    assert lines[-1].strip() == "dtype=tdt.int32)" and len(lines[-2]) <= 80


def test_sparse_tensors_and_classes_of_the_users_print_as_pytorchs():
    for size, nnz in ((3, 2), (3, 0)):
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            theirs = torch.sparse_coo_tensor([list(range(nnz))], torch.ones(nnz), (size,))
        file = io.BytesIO()
        torch.save(theirs, file)
        file.seek(0)
        assert repr(tdt.load(file)) == repr(theirs).replace("torch.", "tdt.")
    texts = [repr(lib.ones(2).as_subclass(type("Named", (lib.Tensor,), {}))) for lib in (tdt, torch)]
    assert texts[0] == texts[1]


def test_named_results_print_as_pytorchs():
    for call in (
        lambda t: t.tensor([[1.0, 2.0], [3.0, 0.0]]).max(1),
        lambda t: t.linalg.eigh(t.eye(2)),
        lambda t: t.linalg.lu_factor(t.eye(2)),
    ):
        assert repr(call(tdt)) == repr(call(torch)).replace("torch.", "tdt.")

"""What happens to gradients where a tensor is written to between forward and backward."""

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.ops.test_op_table import (
    assert_same,
    differentiable,
    every_differentiable_op,
    gradient_calls,
    leaves,
    operands_of,
    outputs,
    run,
    weight_for,
)
from tests.samples import TABLE

OVERWRITTEN = "modified by an inplace operation"


def attempt(function):
    """The result, or the error."""
    try:
        return function(), None
    except RuntimeError as error:
        return None, error


def write_to(t):
    """Give a tensor other values, of the same kind: an index stays one. Not where elements lie in one place."""
    with tdt.no_grad():
        if 0 in [step for step, size in zip(t.stride(), t.shape, strict=True) if size > 1]:
            pass
        elif t.dtype is tdt.bool:
            t.logical_not_()
        elif t.dtype.category >= 2:
            t.mul_(1.5).add_(0.25)
        else:
            t.copy_(t.flatten().flip(0).reshape(t.shape).clone())


def gradients_after(name, call, target=None):
    """The gradients of all operands; before backward, `target(operands, results)` is written to."""
    operands = operands_of(call, True)
    results = run(name, call, operands)
    outs = differentiable(results)
    heads = [t * 1 for t in outs]
    if target is not None:
        write_to(target(operands, outputs(results)))
    found = tdt.autograd.grad(
        heads, leaves(operands), [tdt.from_numpy(weight_for(t)) for t in heads], allow_unused=True
    )
    return [None if g is None else g.numpy() for g in found]


@every_differentiable_op
def test_after_a_write_gradients_are_the_same_or_refused(name):
    for call in gradient_calls(name):
        if TABLE[name].unique is not None:
            continue
        expected = gradients_after(name, call)
        places = [k for k, a in enumerate(call.operands) if isinstance(a, np.ndarray)]
        count = len(outputs(run(name, call, operands_of(call))))
        targets = [lambda operands, results, k=k: operands[k] for k in places]
        targets += [lambda operands, results, k=k: results[k] for k in range(count)]
        for target in targets:
            found, error = attempt(lambda target=target: gradients_after(name, call, target))
            if error is not None:
                assert OVERWRITTEN in str(error) or "is a view" in str(error)
                continue
            for a, b in zip(found, expected, strict=True):
                assert_same(a, b)


OPERANDS = {
    "polar": lambda lib, x: lib.polar(x, x + 1),
    "linalg.eig": lambda lib, x: lib.linalg.eig(x).eigenvalues,
    "linalg.eigvals": lambda lib, x: lib.linalg.eigvals(x),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_pytorch_does_not_save_may_be_written_to(name):
    def gradient(lib, write):
        leaf = lib.tensor([[3.0, 1.0], [0.5, -2.0]], dtype=lib.float64, requires_grad=True)
        x = leaf * 1
        out = (OPERANDS[name](lib, x) ** 2).real.sum()
        if write:
            x.zero_()
        return lib.autograd.grad(out, leaf)[0].numpy()

    expected = gradient(require_torch(), write=True)
    for write in (False, True):
        np.testing.assert_allclose(gradient(tdt, write), expected, rtol=1e-12)


IMAGES = (2, 3, 8, 8)
WRITTEN = {
    "max_pool1d": (lambda lib, x: lib.nn.functional.max_pool1d(x[0], 2), IMAGES),
    "max_pool2d": (lambda lib, x: lib.nn.functional.max_pool2d(x, 2), IMAGES),
    "max_pool2d of one image": (lambda lib, x: lib.nn.functional.max_pool2d(x[0], 3, 2, 1), IMAGES),
    "max_pool2d channels last": (
        lambda lib, x: lib.nn.functional.max_pool2d(x.contiguous(memory_format=lib.channels_last), 2), IMAGES,
    ),
    "max_pool2d of bfloat16": (lambda lib, x: lib.nn.functional.max_pool2d(x.bfloat16(), 2), IMAGES),
    "max_pool3d": (lambda lib, x: lib.nn.functional.max_pool3d(x, 2, 1), IMAGES),
    "adaptive_max_pool2d": (lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, 2), IMAGES),
    "adaptive_max_pool2d uneven": (lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, 3), IMAGES),
    "avg_pool2d": (lambda lib, x: lib.nn.functional.avg_pool2d(x, 2), IMAGES),
    "logaddexp": (lambda lib, x: lib.logaddexp(x, lib.ones(8)), IMAGES),
    "logaddexp2": (lambda lib, x: lib.logaddexp2(lib.ones(8), x), IMAGES),
    "cosine_similarity": (lambda lib, x: lib.nn.functional.cosine_similarity(x, lib.ones(8), -1), IMAGES),
    "sigmoid": (lambda lib, x: x.sigmoid(), IMAGES),
    "batch_norm": (lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True), IMAGES),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("second", [False, True])
def test_activations_in_place_follow_what_pytorch_lets_them_follow(name, second):
    function, shape = WRITTEN[name]
    values = np.random.default_rng(5).normal(size=shape).astype(np.float32)

    def gradient(lib):
        x = lib.tensor(values).requires_grad_()
        for _ in range(3):  # repeated calls take shorter ways
            loss = (lib.nn.functional.relu_(function(lib, x)).float() ** 2).sum()
            [g] = lib.autograd.grad(loss, [x], create_graph=second)
            if second:
                [g] = lib.autograd.grad((g**2).sum(), [x])
        return g.numpy()

    expected, their_error = attempt(lambda: gradient(require_torch()))
    found, error = attempt(lambda: gradient(tdt))
    assert (OVERWRITTEN in str(error)) == (OVERWRITTEN in str(their_error))
    if their_error is None:
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.filterwarnings("error::UserWarning")  # of a function that is not compiled
def test_a_compiled_function_computes_an_overwritten_maximum_again():
    def gradients(compiled):
        x = tdt.tensor(np.random.default_rng(3).normal(size=IMAGES).astype(np.float32)).requires_grad_()

        def loss(x):
            return (tdt.nn.functional.max_pool2d(x * 2, 2).relu_() ** 2).sum()

        function = tdt.compile(loss) if compiled else loss
        return [tdt.autograd.grad(function(x), [x])[0].numpy() for _ in range(6)]

    for found, expected in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_array_equal(found, expected)

"""Transforms, constraints and the registries that lead from one to the other, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

REAL, UNIT, SIMPLEX = (
    np.array([[-1.5, 0.2, 0.7]], "f4"),
    np.array([[0.1, 0.5, 0.8]], "f4"),
    np.array([[0.1, 0.3, 0.6]], "f4"),
)
MATRIX = np.array([[2.0, 0.3], [0.3, 1.0]], "f4")
TRANSFORMS = {
    "exp": (lambda t: t.ExpTransform(), REAL),
    "power": (lambda t: t.PowerTransform(3.0), UNIT),
    "sigmoid": (lambda t: t.SigmoidTransform(), REAL),
    "softplus": (lambda t: t.SoftplusTransform(), REAL),
    "tanh": (lambda t: t.TanhTransform(), REAL),
    "abs": (lambda t: t.AbsTransform(), REAL),
    "affine": (lambda t: t.AffineTransform(1.0, -2.0), REAL),
    "affine of rows": (lambda t: t.AffineTransform(1.0, -2.0, event_dim=1), REAL),
    "softmax": (lambda t: t.SoftmaxTransform(), REAL),
    "stick breaking": (lambda t: t.StickBreakingTransform(), REAL),
    "lower Cholesky": (lambda t: t.LowerCholeskyTransform(), MATRIX),
    "positive definite": (lambda t: t.PositiveDefiniteTransform(), MATRIX),
    "correlation": (lambda t: t.CorrCholeskyTransform(), REAL),
    "reshape": (lambda t: t.ReshapeTransform((3,), (3, 1)), REAL),
    "independent": (lambda t: t.IndependentTransform(t.ExpTransform(), 1), REAL),
    "cat": (lambda t: t.CatTransform([t.ExpTransform(), t.TanhTransform()], -1, [1, 2]), REAL),
    "stack": (lambda t: t.StackTransform([t.ExpTransform(), t.TanhTransform(), t.SigmoidTransform()], -1), REAL),
    "composed": (
        lambda t: t.ComposeTransform([t.ExpTransform().inv, t.AffineTransform(1, 2.0), t.TanhTransform()]),
        UNIT,
    ),
    "rows, then one event": (
        lambda t: t.ComposeTransform([t.AffineTransform(0, 2.0), t.StickBreakingTransform()]),
        REAL,
    ),
    "nothing": (lambda t: t.ComposeTransform([]), REAL),
}


def value_or_error(action: Any) -> Any:
    """A result as an array, or the class of the error; a RuntimeError and its subclasses are one."""
    try:
        result = action()
    except (
        AssertionError,
        AttributeError,
        IndexError,
        NotImplementedError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        return type(error).__name__
    return result.detach().numpy() if hasattr(result, "detach") else result


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, np.ndarray):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)
        assert ours.shape == theirs.shape
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_pytorchs(name: str):
    torch = require_torch()
    make, x = TRANSFORMS[name]
    results = []
    for m in (tdt, torch):
        transform, value = make(m.distributions.transforms), m.tensor(x)
        y = transform(value)
        results.append([
            value_or_error(lambda: transform(value)),  # noqa: B023 (called at once)
            value_or_error(lambda: transform.inv(y)),  # noqa: B023
            value_or_error(lambda: transform.log_abs_det_jacobian(value, y)),  # noqa: B023
            value_or_error(lambda: transform.inv.log_abs_det_jacobian(y, value)),  # noqa: B023
            value_or_error(lambda: tuple(transform.forward_shape(value.shape))),  # noqa: B023
            value_or_error(lambda: tuple(transform.inverse_shape(y.shape))),  # noqa: B023
            value_or_error(lambda: transform.domain.event_dim),  # noqa: B023
            value_or_error(lambda: transform.codomain.event_dim),  # noqa: B023
            value_or_error(lambda: bool(transform.bijective)),  # noqa: B023
            value_or_error(lambda: int(transform.sign)),  # noqa: B023
            value_or_error(lambda: bool(transform.codomain.check(y).all())),  # noqa: B023
            transform == make(m.distributions.transforms),
            transform.inv.inv is transform,
        ])  # fmt: skip
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs)


CONSTRAINTS = {
    "real": REAL, "positive": UNIT, "nonnegative": UNIT, "unit_interval": UNIT, "simplex": SIMPLEX, "real_vector": REAL,
    "lower_cholesky": MATRIX, "positive_definite": MATRIX, "positive_semidefinite": MATRIX, "corr_cholesky": MATRIX,
    "boolean": UNIT, "one_hot": np.eye(3, dtype="f4"), "nonnegative_integer": np.array([0.0, 1.5, -1.0], "f4"),
    "positive_integer": np.array([0.0, 1.0, -1.0], "f4"), "square": MATRIX, "symmetric": MATRIX + np.array([0, 1], "f4"),
    "lower_triangular": np.tril(MATRIX), "greater_than(0.3)": UNIT, "less_than(0.3)": UNIT, "interval(0.1, 0.5)": UNIT,
    "half_open_interval(0.1, 0.5)": UNIT, "integer_interval(0, 2)": np.array([0.0, 0.5, 3.0], "f4"),
    "cat([c.real, c.positive], -1, [1, 2])": REAL, "stack([c.real, c.positive, c.real], -1)": REAL,
    "independent(c.positive, 1)": REAL, "multinomial(3)": np.array([[1.0, 2.0], [3.0, 1.0]], "f4"),
}  # fmt: skip


@pytest.mark.parametrize("text", CONSTRAINTS)
def test_constraints_and_their_transforms_are_pytorchs(text: str):
    torch = require_torch()
    results = []
    for m in (tdt, torch):
        c = m.distributions.constraints
        constraint = eval(f"c.{text}", {"c": c})
        x = m.tensor(REAL if CONSTRAINTS[text].ndim > 1 and CONSTRAINTS[text].shape[-1] == 3 else MATRIX)
        results.append([
            value_or_error(lambda: constraint.check(m.tensor(CONSTRAINTS[text]))),  # noqa: B023 (called at once)
            constraint.event_dim,
            constraint.is_discrete,
            value_or_error(lambda: m.distributions.transform_to(constraint)(x)),  # noqa: B023
            value_or_error(lambda: m.distributions.biject_to(constraint)(x)),  # noqa: B023
        ])  # fmt: skip
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs)


def test_a_cache_returns_the_same_object():
    tanh = tdt.distributions.TanhTransform(cache_size=1)
    x = tdt.tensor([20.0])
    assert tanh.inv(tanh(x)) is x
    assert tdt.distributions.TanhTransform().inv(tanh(x)).isinf().all()
    assert tanh.with_cache(0)._cache_size == 0


def test_triangles_go_into_vectors_and_back():
    torch = require_torch()
    from tdt.distributions import utils

    matrix = tdt.arange(32.0).view(2, 4, 4)
    for diagonal in (-2, -1, 0, 1):
        vector = utils.tril_matrix_to_vec(matrix, diagonal)
        theirs = torch.distributions.utils.tril_matrix_to_vec(torch.tensor(matrix.numpy()), diagonal)
        assert vector.tolist() == theirs.tolist()
        assert utils.vec_to_tril_matrix(vector, diagonal).equal(matrix.tril(diagonal))
    with pytest.raises(ValueError, match="cannot be expressed"):
        utils.vec_to_tril_matrix(tdt.ones(4))


def test_a_distribution_or_transform_may_be_a_module_too():
    class Shift(tdt.distributions.transforms.Transform, tdt.nn.Module):
        def __init__(self):
            super().__init__(cache_size=1)
            self.by = tdt.nn.Parameter(tdt.ones(2))

    class Learnt(tdt.distributions.Distribution, tdt.nn.Module):
        arg_constraints = {}

        def __init__(self):
            super().__init__((2,))
            self.scale = tdt.nn.Parameter(tdt.ones(2))

    assert [*Shift().state_dict()] == ["by"] and [*Learnt().state_dict()] == ["scale"]

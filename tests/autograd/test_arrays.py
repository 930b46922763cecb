"""Functions of several ops give the same bits on arrays, where nothing is recorded, as by their ops."""

import numpy as np
import pytest

import tdt

F = tdt.nn.functional
FUNCTIONS = {
    "cat": lambda x, y: tdt.cat([x, y], 1),
    "cat of one": lambda x, y: tdt.cat((x,), -2),
    "cosine_similarity": F.cosine_similarity,
    "cosine_similarity over rows": lambda x, y: F.cosine_similarity(x, y, 0, 2.0),
    "cumulative_trapezoid": tdt.cumulative_trapezoid,
    "diag": lambda x, y: tdt.diag(x, 1),
    "diff": lambda x, y: tdt.diff(x, dim=0),
    "dist": lambda x, y: tdt.dist(x, y, 3),
    "float_power": lambda x, y: tdt.float_power(x.abs(), y),
    "hinge_embedding_loss": lambda x, y: F.hinge_embedding_loss(x, y.detach().sign(), 0.3, reduction="none"),
    "inner": tdt.inner,
    "normalize": lambda x, y: F.normalize(x, 1.5, 0, 1.0),
    "pairwise_distance": lambda x, y: F.pairwise_distance(x, y, 1.0, keepdim=True),
    "pdist": lambda x, y: F.pdist(x),
    "polar": tdt.polar,
    "repeat": lambda x, y: x.repeat(2, 1, 3),
    "slice_scatter": lambda x, y: x.clone().slice_scatter(y[:, :3].clone(), 1, 1, 6, 2),
    "stack": lambda x, y: tdt.stack([x, y], 1),
    "t_copy": lambda x, y: tdt.t_copy(x),
    "trapezoid": tdt.trapezoid,
    "trapezoid of equal steps": lambda x, y: tdt.trapezoid(x, dx=0.25, dim=0),
}


def _operands(dtype: tdt.dtype, form: str) -> tuple[tdt.Tensor, tdt.Tensor]:
    rng = np.random.default_rng(5)
    x, y = (tdt.tensor(rng.standard_normal((9, 7)), dtype=dtype) for _ in range(2))
    if form == "transposed":
        x = x.t().contiguous().t()
    elif form == "special":
        x[0, :5] = tdt.tensor([np.nan, np.inf, -np.inf, -0.0, 0.0], dtype=dtype)
    return x, y


@pytest.mark.parametrize("form", ["plain", "transposed", "special"])
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_without_a_record_has_the_bits_of_one_with(name: str, dtype: tdt.dtype, form: str) -> None:
    x, y = _operands(dtype, form)
    found = FUNCTIONS[name](x, y)
    recorded = FUNCTIONS[name](x.clone().requires_grad_(), y.clone().requires_grad_())
    assert not found.requires_grad
    assert recorded.requires_grad
    assert found.dtype is recorded.dtype
    assert found.stride() == recorded.stride()
    np.testing.assert_array_equal(found.numpy(), recorded.detach().numpy())
    assert (
        np.array_equal(np.signbit(found.numpy().real), np.signbit(recorded.detach().numpy().real)) or form == "special"
    )


@pytest.mark.parametrize("name", ["diff", "cosine_similarity", "stack"])
def test_a_function_under_no_grad_records_nothing(name: str) -> None:
    x, y = (v.requires_grad_() for v in _operands(tdt.float32, "plain"))
    with tdt.no_grad():
        assert not FUNCTIONS[name](x, y).requires_grad


@pytest.mark.parametrize("dtype", [tdt.bfloat16, tdt.float16, tdt.float32])
def test_a_logical_function_in_place_writes_ones_at_every_call(dtype: tdt.dtype) -> None:
    for _ in range(3):
        x = tdt.tensor([0.0, 2.0, 7.0], dtype=dtype)
        assert x.logical_and_(x).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("key", [[0, 3, 3], [True, False, True, True], [0, -1]])
@pytest.mark.parametrize("value", [2.5, 3])
def test_a_number_is_written_where_a_tensor_points(key: list, value: float) -> None:
    x = tdt.arange(12.0).reshape(4, 3)
    expected = x.numpy().copy()
    expected[np.array(key)] = value
    version = x._version
    x[tdt.tensor(key)] = value
    np.testing.assert_array_equal(x.numpy(), expected)
    assert x._version == version + 1


def test_an_index_out_of_range_writes_nothing() -> None:
    x = tdt.zeros(4)
    with pytest.raises(IndexError, match="out of bounds"):
        x[tdt.tensor([0, 4])] = 1.0
    assert x.sum() == 0

"""Views and writes: versions, what a write to a view does to its base, the refusals, `out=`."""

import numpy as np
import pytest

import tdt


def leaf(*values):
    return tdt.tensor(list(values), dtype=tdt.float64, requires_grad=True)


def test_every_write_counts_and_views_share_the_count():
    x = tdt.zeros(3)
    v = x[1:]
    x.add_(1)
    v.mul_(2)
    x[0] = 5
    assert (x._version, v._version, x.detach()._version) == (3, 3, 3)
    assert x.tolist() == [5.0, 2.0, 2.0]
    assert x.clone()._version == 0


def test_a_saved_value_that_was_overwritten_is_noticed():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError, match="one of the variables needed for gradient computation has been modified by an"
    ):
        z.sum().backward()


def test_a_result_that_its_own_rule_needs_may_not_be_overwritten():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_value_that_no_rule_needs_may_be_overwritten():
    x = leaf(1.0, 2.0)
    y = x + 1
    z = y + y
    y.mul_(5)
    (z + y).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_writing_to_a_view_changes_the_bases_gradient():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    y[1:].mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 10.0]


def test_writing_to_the_base_changes_a_views_gradient():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    v = y[1:]
    y.mul_(10)
    v.sum().backward()
    assert x.grad.tolist() == [0.0, 10.0, 10.0]


def test_writing_through_a_chain_of_views_reaches_base_and_siblings():
    x = leaf(*range(6))
    y = (x * 1).view(2, 3)
    sibling = y[0]
    y.t()[1:, :].select(1, 0).mul_(7)
    (sibling.sum() + y.sum()).backward()
    assert x.grad.tolist() == [2.0, 14.0, 14.0, 1.0, 1.0, 1.0]


def test_a_value_written_into_a_view_gets_its_own_gradient():
    x, w = leaf(1.0, 2.0, 3.0), leaf(5.0)
    y = x * 1
    y[1:2] = w * 2
    (y * y).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 6.0]
    assert w.grad.tolist() == [40.0]


def test_a_tensor_without_grad_joins_the_graph_when_written_to():
    x = leaf(1.0, 2.0)
    buffer = tdt.zeros(2, dtype=tdt.float64)
    view = buffer[:1]
    buffer.copy_(x * 3)
    assert buffer.requires_grad and not buffer.is_leaf and view.requires_grad
    view.sum().backward()
    assert x.grad.tolist() == [3.0, 0.0]


def test_leaves_and_views_of_leaves_refuse_writes_except_under_no_grad():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        x[0].zero_()
    with tdt.no_grad():
        x.add_(1)
        x[0].zero_()
    assert x.tolist() == [0.0, 3.0]
    assert x.is_leaf and x.requires_grad


def test_one_of_several_views_refuses_writes():
    y = leaf(1.0, 2.0) * 1
    first, _ = y.split(1)
    with pytest.raises(
        RuntimeError, match="is a view and is being modified inplace. This view is the output of a function"
    ):
        first.add_(1)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        y.unbind()[0].add_(1)


def test_a_view_created_under_no_grad_refuses_writes_outside():
    y = leaf(1.0, 2.0) * 1
    with tdt.no_grad():
        v = y[0]
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace with grad mode"
    ):
        v.add_(1)


def test_expanded_memory_refuses_writes():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        tdt.zeros(1).expand(3).add_(1)


def test_a_write_may_not_change_shape_or_lower_the_dtype():
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        tdt.zeros(2).add_(tdt.zeros(3, 2))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        tdt.zeros(2, dtype=tdt.int64).add_(1.5)


def test_a_failed_write_leaves_values_and_version():
    x = tdt.zeros(2)
    with pytest.raises(RuntimeError):
        x.add_(tdt.ones(3))
    assert x.tolist() == [0.0, 0.0]
    assert x._version == 0


def test_reading_and_writing_the_same_memory_uses_the_old_values():
    x = tdt.arange(4.0)
    x.copy_(x.flip(0))
    assert x.tolist() == [3.0, 2.0, 1.0, 0.0]
    y = tdt.arange(3.0)
    y.mul_(y)
    assert y.tolist() == [0.0, 1.0, 4.0]


def test_tensors_over_overlapping_numpy_arrays_are_read_before_they_are_written():
    memory = np.arange(6, dtype=np.float32)
    x, y = tdt.from_numpy(memory[:-1]), tdt.from_numpy(memory[1:])
    y.add_(x)
    assert memory.tolist() == [0, 1, 3, 5, 7, 9]
    assert y._version == 1


@pytest.mark.parametrize("dtype", [tdt.complex64, tdt.complex128])
def test_complex_numbers_are_copied_into_bools_as_they_are_converted(dtype: tdt.dtype):
    source = tdt.tensor([0j, 1j, 2, complex(0, float("nan"))], dtype=dtype)
    for target in (tdt.zeros(4, dtype=tdt.bool), tdt.zeros(8, dtype=tdt.bool)[::2]):
        assert target.copy_(source).tolist() == source.to(tdt.bool).tolist() == [False, True, True, True]
    target[...] = 1j
    assert target.all()


def test_detach_shares_memory_and_version_but_data_hides_its_writes():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y.data.mul_(10)
    z.sum().backward()
    assert x.grad.tolist() == [20.0, 40.0]
    y = x * 1
    z = y * y
    y.detach().mul_(10)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_out_receives_values_is_resized_when_empty_and_refuses_gradients():
    x, y = tdt.ones(2), tdt.ones(2)
    target = tdt.empty(0)
    assert tdt.add(x, y, out=target) is target
    assert target.tolist() == [2.0, 2.0]
    with pytest.raises(
        RuntimeError, match="add.*functions with out=... arguments don't support automatic differentiation"
    ):
        tdt.add(leaf(1.0), leaf(1.0), out=tdt.empty(1, dtype=tdt.float64))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        tdt.add(x, y, out=tdt.empty(2, dtype=tdt.int64))


def test_out_into_a_view_writes_the_base():
    base = tdt.zeros(2, 3)
    tdt.mul(tdt.tensor([1.0, 2.0]), 3, out=base[:, 1])
    assert base.tolist() == [[0.0, 3.0, 0.0], [0.0, 6.0, 0.0]]
    assert base._version == 1


@pytest.mark.parametrize("write", ["v", "w", "y"])
@pytest.mark.parametrize(
    "how", [lambda t: t.mul_(3), lambda t: t.index_add_(0, tdt.tensor([0]), t.detach()[:1]), lambda t: t.clamp_(2)]
)
def test_a_hook_on_a_view_is_not_called_for_later_writes(how, write):
    x, calls = leaf(1.0, 2.0, 3.0), []
    y = x * 1
    v = y[1:]
    w = v[:1]
    used = v.sum()
    v.register_hook(lambda g: calls.append(g.tolist()))
    how({"v": v, "w": w, "y": y}[write])
    (y.sum() + v.sum() + w.sum()).backward(retain_graph=True)
    assert calls == []
    used.backward()
    assert calls == [[1.0, 1.0]]


@pytest.mark.parametrize(
    "divide", [lambda y: y.floor_divide_(2), lambda y: y // 2, lambda y: y.floor_divide(2), lambda y: 2 // y]
)
def test_quotients_rounded_down_have_no_gradient_as_in_pytorch(divide):
    y = divide(leaf(7.0, -7.0) * 1)
    assert y.requires_grad
    assert y.grad_fn.name() == "NotImplemented"
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        y.sum().backward()
    x = leaf(7.0, -7.0)
    x.div(2, rounding_mode="floor").sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_a_tensor_detached_from_one_of_inference_mode_may_be_written_to():
    with tdt.inference_mode():
        x = tdt.ones(3)
    for detached in (x.detach(), x.data):
        assert detached.is_inference()
        detached.add_(1)
    assert x.tolist() == [3.0, 3.0, 3.0]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        x.detach().requires_grad_()
    with tdt.inference_mode():
        inside = x.detach()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        inside.add_(1)
    assert x[1:].detach_().is_inference()
    again = x.detach().detach()
    again.add_(1)
    assert (again._version, x.detach()._version) == (1, 0)


@pytest.mark.parametrize("part", [lambda x: x.detach(), lambda x: x.data, lambda x: x.detach()[1:]])
def test_a_tensor_detached_from_one_of_inference_mode_is_not_saved_for_backward(part):
    with tdt.inference_mode():
        x = tdt.ones(3, dtype=tdt.float64)
    for _ in range(6):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            part(x) * leaf(2.0)
    assert (part(x).clone() * leaf(2.0)).requires_grad


def test_a_gradient_with_a_graph_is_added_to_in_place():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward(create_graph=True)
    g = x.grad
    (g**2).sum().backward()
    assert x.grad is g
    assert g.requires_grad
    assert g.tolist() == [10.0, 20.0]


def test_an_uninitialized_parameter_has_data_but_cannot_be_detached():
    weight = tdt.nn.LazyLinear(2).weight
    assert isinstance(weight.data, tdt.Tensor)
    with pytest.raises(ValueError, match="uninitialized parameter"):
        weight.detach()

"""The backward pass: long chains, hooks and their order, forms of grad() and backward(), threads, what is freed."""

import gc
import threading
import weakref

import numpy as np
import pytest

import tdt
from tdt._kernels import FEW_CALLS
from tdt.autograd import _node
from tdt.autograd._node import Node, sum_to
from tdt.autograd._op import op
from tdt.autograd._op_table import OPS

CHAIN = 100_000


@pytest.fixture
def no_collector():
    """Without the cyclic collector: what is freed was freed by reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def live_nodes():
    return sum(type(o) is Node for o in gc.get_objects())


def leaf(*values):
    return tdt.tensor(values if len(values) > 1 else values[0], dtype=tdt.float64, requires_grad=True)


def chain(x):
    y = x
    for _ in range(CHAIN // 2):
        y = (y + 1.0) * 1.0
    return y


def test_a_chain_of_100000_ops_runs_backward_without_recursion(no_collector):
    before = live_nodes()
    x = leaf(1.0, 2.0)
    y = chain(x).sum()
    assert live_nodes() - before >= CHAIN
    y.backward()
    assert x.grad.tolist() == [1.0, 1.0]
    del y
    assert live_nodes() == before


def test_a_chain_of_100000_ops_is_dropped_without_backward_or_recursion(no_collector):
    before = live_nodes()
    x = leaf(1.0, 2.0)
    y = chain(x)
    del y
    assert live_nodes() == before


def test_a_chain_of_100000_in_place_writes_to_a_view_runs_backward(no_collector):
    before = live_nodes()
    x = leaf(1.0, 2.0)
    y = x * 1.0
    first = y[0]
    for _ in range(CHAIN // 10):
        first.add_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert y.tolist() == [1.0 + CHAIN // 10, 2.0]
    del y, first
    assert live_nodes() == before


def test_tensors_and_graph_are_freed_by_reference_counts_alone(no_collector):
    x = leaf(1.0, 2.0)
    y = tdt.tanh(x * x)
    z = y[0].exp() + y.max(0).values
    watched = [weakref.ref(t) for t in (y, z)] + [weakref.ref(x)]
    z.backward()
    del x, y, z
    assert [w() for w in watched] == [None] * 3


def test_backward_frees_saved_tensors_and_a_second_one_raises():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_retain_graph_allows_a_second_backward_and_gradients_add_up():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_create_graph_enables_gradients_of_any_order():
    x = leaf(2.0)
    g = x**4
    for expected in (32.0, 48.0, 48.0, 24.0):
        (g,) = tdt.autograd.grad(g, x, create_graph=True)
        assert g.item() == expected


def test_the_gradients_of_a_sum_are_two_arrays():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward()
    x.grad.mul_(10)
    assert y.grad.tolist() == [1.0, 1.0]
    z = leaf(1.0, 2.0)
    g = tdt.ones(2, dtype=tdt.float64)
    (z + 0).backward(g)
    z.grad.mul_(10)
    assert g.tolist() == [1.0, 1.0]


def test_gradients_that_one_node_sends_twice_to_a_leaf_add_up():
    x = leaf(3.0)
    (x * x + x + x).backward()
    assert x.grad.item() == 8.0


def test_a_tensor_hook_gets_the_accumulated_gradient_once_and_may_replace_it():
    x = leaf(1.0, 2.0)
    y = x * 2
    gradients = []
    y.register_hook(lambda g: gradients.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: gradients.append(g.tolist()))
    (y.sum() + (3 * y).sum()).backward()
    assert gradients == [[4.0, 4.0], [40.0, 40.0]]
    assert x.grad.tolist() == [80.0, 80.0]


def test_a_leaf_hook_fires_once_when_its_last_edge_has_arrived():
    early, late = leaf(1.0), leaf(1.0)
    order = []
    early.register_hook(lambda g: order.append(("early", g.item())))
    late.register_hook(lambda g: order.append(("late", g.item())))
    y = late * 2
    for _ in range(10):
        y = y * 1.0
    loss = (y + early) * 1.0 + early * 3
    loss.backward()
    assert order == [("early", 4.0), ("late", 2.0)]


def test_a_post_accumulate_hook_sees_the_finished_grad_before_earlier_layers_run():
    first, second = leaf(2.0), leaf(3.0)
    order = []
    first.register_post_accumulate_grad_hook(lambda p: order.append(("first", p.grad.item())))
    second.register_post_accumulate_grad_hook(lambda p: order.append(("second", p.grad.item())))
    x = first * 5
    x.register_hook(lambda g: order.append(("between", g.item())))
    (x * second).backward()
    assert order == [("second", 10.0), ("between", 3.0), ("first", 15.0)]


def test_a_removed_hook_is_not_called():
    x = leaf(1.0)
    calls = []
    handle = x.register_hook(calls.append)
    handle.remove()
    handle.remove()
    (x * 2).backward()
    assert calls == []


def test_a_hook_that_changes_the_shape_is_refused():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        y.sum().backward()


def test_retain_grad_keeps_the_gradient_of_a_computed_tensor_after_its_hooks():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    (y * y).sum().backward()
    assert y.grad.tolist() == [12.0, 24.0]
    assert y.retains_grad


def test_retain_grad_follows_a_tensor_that_is_written_to():
    x = tdt.ones(3, requires_grad=True)
    y, base, other = x * 2, x * 2, x * 2
    view, old_view = base[1:], other[1:]
    for t in (y, base, old_view):
        t.retain_grad()
    y.mul_(3)
    view.mul_(3)
    other.mul_(3)
    (y.sum() + base.sum() + old_view.sum()).backward()
    assert y.grad.tolist() == base.grad.tolist() == [1.0, 1.0, 1.0]
    assert old_view.grad.tolist() == [1.0, 1.0]


def test_grad_leaves_dot_grad_alone_and_reaches_computed_tensors():
    x = leaf(1.0, 2.0)
    y = x * 3
    gy, gx = tdt.autograd.grad((y * y).sum(), (y, x))
    assert gy.tolist() == [6.0, 12.0]
    assert gx.tolist() == [18.0, 36.0]
    assert x.grad is None


@pytest.mark.parametrize("fast", [False, True])
def test_grad_runs_no_rule_for_an_operand_that_is_not_requested(fast):
    ran = []
    own = op(name="own_product")(lambda xp, x, y: x * y)
    try:
        for operand, other in (("x", "y"), ("y", "x")):
            rule = eval(f"lambda g, {other}: ran.append({operand!r}) or g * {other}", {"ran": ran})
            own.vjp(operand)(rule)
            if fast:
                own.fast_vjp(operand)(rule)
        x, y = leaf(2.0), leaf(3.0)
        (g,) = tdt.autograd.grad(own(x, y), [x])
        assert (g.item(), ran) == (3.0, ["x"])
    finally:
        del OPS["own_product"]


def test_grad_of_an_unused_input_is_an_error_or_none_or_zeros():
    x, unused = leaf(1.0), leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used"):
        tdt.autograd.grad(x * 2, (x, unused))
    assert tdt.autograd.grad(x * 2, (x, unused), allow_unused=True)[1] is None
    assert tdt.autograd.grad(x * 2, (x, unused), materialize_grads=True)[1].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="allow_unused"):
        tdt.autograd.grad(x * 2, x, allow_unused=False, materialize_grads=True)


def test_grad_outputs_weigh_the_outputs_and_must_have_their_shapes():
    x = leaf(1.0, 2.0)
    (g,) = tdt.autograd.grad([x * 2, x.sum()], x, grad_outputs=[tdt.tensor([1.0, 10.0], dtype=tdt.float64), None])
    assert g.tolist() == [3.0, 21.0]
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\]"):
        tdt.autograd.grad(x * 2, x, grad_outputs=tdt.ones(3, dtype=tdt.float64))
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        tdt.autograd.grad(x * 2, x)


@pytest.mark.parametrize("dtype", [tdt.float64, tdt.float16, tdt.bfloat16], ids=str)
def test_a_passed_gradient_is_cast_to_the_dtype_of_its_output(dtype):
    x = tdt.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    (x * 3).backward(tdt.tensor([1, 2]))
    assert x.grad.dtype is dtype and x.grad.tolist() == [3, 6]
    weight = tdt.tensor([1.0, 2.0], requires_grad=True)
    (g,) = tdt.autograd.grad(x * x, x, weight, create_graph=True)
    (back,) = tdt.autograd.grad(g.sum(), weight)
    assert g.dtype is dtype and back.dtype is tdt.float32 and back.tolist() == [2, 4]


def test_batched_gradients_are_those_of_each_row_stacked():
    x = leaf(1.0, 2.0)
    y = x * x
    (rows,) = tdt.autograd.grad(y, x, tdt.eye(2, dtype=tdt.float64), is_grads_batched=True, retain_graph=True)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    with pytest.raises(RuntimeError, match="first dimension of each grad_output"):
        tdt.autograd.grad(y, x, tdt.ones(3, dtype=tdt.float64), is_grads_batched=True)


def test_backward_into_chosen_inputs_only():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 2.0
    assert y.grad is None


def test_backward_of_something_that_needs_no_gradient_is_an_error():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        tdt.ones(()).backward()


def test_gradients_in_two_threads_at_once_are_those_of_one():
    rng = np.random.default_rng(0)
    w = tdt.tensor(rng.standard_normal((50, 50)), requires_grad=True)
    inputs = [tdt.tensor(rng.standard_normal((8, 50))) for _ in range(2)]

    def work(x):
        for _ in range(50):
            tdt.tanh(x @ w).sum().backward()

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    together = w.grad.numpy().copy()
    w.grad = None
    for x in inputs:
        work(x)
    np.testing.assert_allclose(together, w.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_grad_modes_belong_to_their_thread():
    x = leaf(1.0)
    modes = []
    with tdt.no_grad():
        t = threading.Thread(target=lambda: modes.append((x * 2).requires_grad))
        t.start()
        t.join()
        modes.append((x * 2).requires_grad)
    assert modes == [True, False]


def test_no_grad_enable_grad_and_inference_mode_nest():
    x = leaf(1.0)
    with tdt.no_grad():
        assert not (x * 2).requires_grad
        with tdt.enable_grad():
            assert (x * 2).requires_grad
        with tdt.set_grad_enabled(True):
            assert tdt.is_grad_enabled()
        assert not tdt.is_grad_enabled()
    with tdt.inference_mode():
        y = x * 2
        assert tdt.is_inference_mode_enabled()
        assert not y.requires_grad
    with pytest.raises(RuntimeError, match="nference tensor"):
        y.requires_grad_()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.add_(1)


@pytest.mark.parametrize("outer", [tdt.no_grad, tdt.inference_mode])
def test_inference_mode_of_false_records_inside_of_any_mode(outer):
    with outer():
        with tdt.inference_mode(False):
            assert (tdt.ones(1, requires_grad=True) * 2).requires_grad
        assert not tdt.is_grad_enabled()


def test_a_tensor_created_in_inference_mode_stays_out_of_every_graph():
    normal = tdt.ones(2)
    with tdt.inference_mode():
        created, computed, view, wanting = tdt.ones(2), normal * 2, normal[:1], tdt.ones(2, requires_grad=True)
        created.add_(1)
    assert [t.is_inference() for t in (created, created[:1], created.detach(), computed, wanting)] == [True] * 5
    assert [t.is_inference() for t in (normal, view, created * 2, created.clone())] == [False] * 4
    weight = tdt.ones(2, requires_grad=True)
    (weight + created).sum().backward()  # nothing of it is kept
    assert weight.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        weight * created
    for change in (
        lambda: created.add_(1),
        lambda: created.__setitem__(0, 1),
        lambda: tdt.add(normal, 1, out=computed),
    ):
        with pytest.raises(
            RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"
        ):
            change()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        created.requires_grad_()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        _ = created._version


def test_a_gradient_that_the_user_has_expanded_cannot_be_added_to():
    x = leaf(1.0, 2.0)
    x.grad = tdt.tensor(1.0, dtype=tdt.float64).expand(2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        (x * x).sum().backward()
    x.grad = None
    x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_grad_modes_decorate_functions_and_generators():
    x = leaf(1.0)

    @tdt.no_grad()
    def without():
        return (x * 2).requires_grad

    @tdt.no_grad()
    def steps():
        yield (x * 2).requires_grad
        yield tdt.is_grad_enabled()

    assert without() is False
    generator = steps()
    assert next(generator) is False
    assert tdt.is_grad_enabled()
    assert next(generator) is False


def test_a_real_input_of_a_complex_computation_gets_a_real_gradient():
    x = leaf(3.0)
    z = x * (1 + 2j)
    (z.real + z.imag).backward()
    assert x.grad.dtype is tdt.float64
    assert x.grad.item() == 3.0


def test_a_gradient_takes_its_inputs_dtype_and_shape():
    x = tdt.tensor([[1.0], [2.0]], dtype=tdt.float32, requires_grad=True)
    y = tdt.tensor([1.0, 2.0, 3.0], dtype=tdt.float64, requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad.dtype, tuple(x.grad.shape), x.grad.tolist()) == (tdt.float32, (2, 1), [[6.0], [6.0]])
    assert (y.grad.dtype, tuple(y.grad.shape), y.grad.tolist()) == (tdt.float64, (3,), [3.0, 3.0, 3.0])


@pytest.mark.parametrize(
    ("whole", "part"),
    [((4, 5), (5,)), ((4, 5), (4, 1)), ((3, 4, 5), (4, 1)), ((3, 4, 5), ()), ((1, 7), (7,)), ((2, 300, 3), (300, 1))],
)
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64, tdt.bfloat16])
def test_the_gradient_of_a_broadcast_operand_has_the_same_bits_in_every_call(whole, part, dtype):
    g = tdt.randn(whole, dtype=tdt.float64).to(dtype)._a
    first, *later = [sum_to(g, part) for _ in range(6)]
    assert type(first) is np.ndarray and first.shape == part and first.dtype == g.dtype
    for found in later:
        assert type(found) is np.ndarray and found.shape == part and found.dtype == g.dtype
        assert found.tobytes() == first.tobytes()


@pytest.mark.parametrize("graph", [False, True])
def test_nodes_that_run_often_give_the_same_gradients_and_check_what_they_saved(monkeypatch, graph):
    monkeypatch.setattr(_node, "RUNS", 2)
    x, w, b = (tdt.randn(n, requires_grad=True) for n in ((4, 3), (3, 3), (3,)))

    def loss(write=False):
        y = (x.tanh() @ w) * b
        y = tdt.stack([y, y[:, tdt.tensor([2, 0, 0])]]).sum(0)
        z = (tdt.cat([y, x * b], 1) / (b[0] * b[0] + 1)).sum(1).exp()
        if write:
            y.add_(1)
            z.mul_(2)
        return z.mean()

    def gradients():
        grads = tdt.autograd.grad(loss(), (x, w, b), create_graph=graph)
        if not graph:
            return (*grads, tdt.autograd.grad(loss(), w)[0])
        hidden = x * 2  # requested, and not all that it leads to
        (inner,) = tdt.autograd.grad((hidden.tanh() @ w).exp().sum(), hidden, create_graph=True)
        return *grads, inner, *tdt.autograd.grad(sum((g * g).sum() for g in grads) + inner.sum(), (x, w, b))

    first, *later = [gradients() for _ in range(5)]
    for grads in later:
        assert all(tdt.equal(g, expected) for g, expected in zip(grads, first, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss(write=True).backward(create_graph=graph)
    last = loss()
    last.backward(retain_graph=False, create_graph=graph)
    with pytest.raises(RuntimeError, match="second time"):
        last.backward(create_graph=graph)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
@pytest.mark.parametrize("dtype", [tdt.bfloat16, tdt.float16])
def test_recorded_gradients_of_extremes_have_the_operands_dtype(name, dtype):
    x = tdt.tensor([1.0, 2.0, 3.0], dtype=dtype, requires_grad=True)
    (g,) = tdt.autograd.grad(getattr(tdt, name)(x, tdt.full_like(x, 2)).sum(), x, create_graph=True)
    assert g.dtype is dtype
    assert g[1] == 0.5 or name.startswith("f")


def test_parts_of_complex_tensors_are_written_by_assignment():
    z = tdt.zeros(2, dtype=tdt.complex64)
    x = tdt.tensor([1.0, 2.0], requires_grad=True)
    z.real = x
    z.imag = 3
    assert z.tolist() == [1 + 3j, 2 + 3j]
    (z * z.conj()).real.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    y = tdt.ones(2)
    y.real = tdt.tensor([5, 6])
    assert y.tolist() == [5.0, 6.0]
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        y.imag = 1
    with pytest.raises(RuntimeError, match="must match the size"):
        z.real = tdt.ones(3)


def test_a_view_of_a_leaf_whose_requires_grad_was_turned_off_gives_it_no_gradient():
    for _ in range(FEW_CALLS + 2):  # from some call on, machine code records the view that follows its base
        base = tdt.tensor(-1.0, requires_grad=True)
        view = base[...]
        base.requires_grad_(False)
        base.add_(2)
        (view * view).sum().backward()
        assert base.grad is None
        assert view.requires_grad

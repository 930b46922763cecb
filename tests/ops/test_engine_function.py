"""Functions written by users, the gradient checkers, and sparse gradients."""

import gc
import weakref

import numpy as np
import pytest

import tdt
from tdt.autograd import Function, gradcheck, gradgradcheck
from tdt.autograd.function import once_differentiable


def leaf(*values):
    return tdt.tensor(list(values), dtype=tdt.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Exp(Function):
    @staticmethod
    def forward(x):
        return tdt.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def test_a_function_is_differentiable_to_any_order():
    x = leaf(1.0, -2.0)
    assert gradcheck(Cube.apply, (x,))
    assert gradgradcheck(Cube.apply, (x,))


def test_a_function_may_save_its_output_in_setup_context_form():
    x = leaf(0.5, -1.0)
    assert gradcheck(Exp.apply, (x,))
    assert gradgradcheck(Exp.apply, (x,))


def test_a_function_that_saves_its_output_makes_no_reference_cycle():
    gc.collect()
    gc.disable()
    try:
        y = Exp.apply(leaf(1.0))
        watched = weakref.ref(y)
        del y
        assert watched() is None
    finally:
        gc.enable()


def test_needs_input_grad_states_which_gradients_are_required():
    calls = []

    class Mul(Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            calls.append(ctx.needs_input_grad)
            return x * y * factor

        @staticmethod
        def backward(ctx, g):
            calls.append(ctx.needs_input_grad)
            return None, None, g

    y = leaf(1.0)
    Mul.apply(tdt.ones(1, dtype=tdt.float64), 2, y).backward()
    assert calls == [(False, False, True)] * 2
    assert y.grad.tolist() == [1.0]


def test_a_dirty_input_is_returned_and_takes_its_new_place_in_the_graph():
    class Triple(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(3)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(1.0, 2.0)
    y = x * 1
    z = Triple.apply(y)
    assert z is y
    (y * y).sum().backward()
    assert x.grad.tolist() == [18.0, 36.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Triple.apply(leaf(1.0))


def test_an_output_marked_non_differentiable_needs_no_gradient():
    class Sort(Function):
        @staticmethod
        def forward(ctx, x):
            order = tdt.argsort(x)
            extra = x * 0
            ctx.mark_non_differentiable(order, extra)
            ctx.save_for_backward(order)
            return x[order], order, extra

        @staticmethod
        def backward(ctx, g, *_):
            (order,) = ctx.saved_tensors
            result = tdt.zeros(3, dtype=tdt.float64)
            result[order] = g
            return result

    x = leaf(3.0, 1.0, 2.0)
    values, order, extra = Sort.apply(x)
    assert (values.requires_grad, order.requires_grad, extra.requires_grad) == (True, False, False)
    (values * tdt.tensor([1.0, 2.0, 3.0], dtype=tdt.float64)).sum().backward()
    assert x.grad.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("materialize", [True, False])
def test_a_missing_gradient_is_zeros_or_none(materialize):
    received = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, first, second):
            received.append(second if second is None else second.tolist())
            return first

    Two.apply(leaf(1.0, 2.0))[0].sum().backward()
    assert received == [[0.0, 0.0] if materialize else None]


def test_once_differentiable_refuses_a_second_derivative():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x, w = leaf(3.0), leaf(2.0)
    (g,) = tdt.autograd.grad(Square.apply(x) * w, x, create_graph=True)
    assert g.item() == 12.0
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_a_wrong_number_or_shape_of_gradients_is_an_error():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, answer):
            ctx.answer = answer
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return ctx.answer

    x = leaf(1.0, 2.0)
    three = (tdt.ones(2, dtype=tdt.float64),) * 3
    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients"):
        Wrong.apply(x, three).sum().backward()
    with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0"):
        Wrong.apply(x, (tdt.ones(3, dtype=tdt.float64), None)).sum().backward()


def test_saved_tensors_that_were_freed_or_overwritten_raise():
    x = leaf(1.0)
    y = x * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    z = Cube.apply(leaf(1.0))
    z.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.backward()


def test_a_function_needs_a_forward():
    with pytest.raises(NotImplementedError, match="forward"):
        Function.apply(leaf(1.0))


class WrongRule(Cube):
    @staticmethod
    def backward(ctx, g):
        return g * 3.03 * ctx.saved_tensors[0] ** 2


class WrongSecond(Cube):
    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0].detach() ** 2


def test_gradcheck_fails_on_a_rule_that_is_wrong_by_a_hundredth():
    x = leaf(1.0, -2.0)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(WrongRule.apply, (x,))
    assert not gradcheck(WrongRule.apply, (x,), raise_exception=False)


def test_gradgradcheck_fails_where_only_the_second_derivative_is_wrong():
    x = leaf(1.0, -2.0)
    assert gradcheck(WrongSecond.apply, (x,))
    assert not gradgradcheck(WrongSecond.apply, (x,), raise_exception=False)


def test_gradcheck_finds_a_missing_conjugate():
    class NoConjugate(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    z = tdt.tensor([1 + 2j, -0.5 + 1j], dtype=tdt.complex128, requires_grad=True)
    assert gradcheck(lambda z: z * z, (z,))
    assert not gradcheck(NoConjugate.apply, (z,), raise_exception=False)


def test_sparse_gradients_of_an_embedding_add_up_in_every_combination():
    index = tdt.tensor([0, 2, 0])
    for first, second in ((True, True), (True, False), (False, True)):
        w = tdt.tensor(np.zeros((4, 2)), requires_grad=True)
        for sparse in (first, second):
            tdt.nn.functional.embedding(index, w, sparse=sparse).sum().backward()
        grad = w.grad.to_dense() if w.grad.is_sparse else w.grad
        assert w.grad.is_sparse == (first and second)
        assert grad.tolist() == [[4.0, 4.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]


def test_a_sparse_and_a_dense_gradient_meet_in_one_backward():
    w = tdt.tensor(np.ones((3, 2)), requires_grad=True)
    (tdt.nn.functional.embedding(tdt.tensor([1, 1]), w, sparse=True).sum() + (w * 10).sum()).backward()
    assert not w.grad.is_sparse
    assert w.grad.tolist() == [[10.0, 10.0], [12.0, 12.0], [10.0, 10.0]]


class Both(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y, x + y

    @staticmethod
    def backward(ctx, product, total):
        return total, total


class Remembers(Function):
    saved = None

    @staticmethod
    def forward(ctx, x):
        return x * 5

    @staticmethod
    def backward(ctx, g):
        Remembers.saved = tdt.full((1,), 5.0, dtype=g.dtype)
        return Remembers.saved


def test_leaves_do_not_share_the_gradient_that_a_function_returned_for_both():
    x, y = leaf(1.0), leaf(2.0)
    Both.apply(x, y)[1].sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1.0]


def test_a_leaf_does_not_share_the_tensor_that_a_function_keeps():
    x = leaf(1.0)
    Remembers.apply(x).sum().backward()
    x.grad.zero_()
    assert Remembers.saved.tolist() == [5.0]


def test_a_leaf_does_not_share_the_gradient_passed_to_a_backward_with_create_graph():
    x, g = leaf(1.0), tdt.ones(1, dtype=tdt.float64)
    x.view(1).backward(g, create_graph=True)
    with tdt.no_grad():
        x.grad.zero_()
    assert g.tolist() == [1.0]


def test_a_gradient_of_another_type_is_converted_to_its_inputs():
    class Other(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g.to(tdt.complex128)

    x = tdt.ones(2, requires_grad=True)
    Other.apply(x).sum().backward()
    assert x.grad.dtype is tdt.float32

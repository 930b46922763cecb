"""What autograd does not offer says so, with what to use."""

import warnings

import pytest

import tdt
from tests.helpers import require_torch


def test_forward_mode_is_refused_by_name():
    dual = tdt.autograd.forward_ad
    x = tdt.ones(2)
    calls = [lambda: dual.make_dual(x, x), dual.enter_dual_level, dual.exit_dual_level, dual.dual_level().__enter__]
    for call in calls:
        with pytest.raises(
            NotImplementedError, match=r"no forward-mode differentiation: .*functional\.jvp and func\.jvp"
        ):
            call()
    for library in (tdt, require_torch()):  # as outside of a level
        x = library.ones(2)
        assert library.autograd.forward_ad.unpack_dual(x).primal is x
        assert library.autograd.forward_ad.unpack_dual(x).tangent is None
    with pytest.raises(NotImplementedError, match="define backward"):
        tdt.autograd.Function.jvp(None)


def test_anomaly_mode_shows_the_forward_call():
    x = tdt.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught, tdt.autograd.detect_anomaly():
        warnings.simplefilter("always")
        y = x.sqrt()  # the line to find
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
            (y * 0).sum().backward()
    text = "".join(str(w.message) for w in caught)
    assert "Error detected in SqrtBackward0. Traceback of forward call" in text
    assert "y = x.sqrt()  # the line to find" in text


REFUSED = {
    "a sum of complex numbers": lambda t, x: (x * 1j).sum().backward(),
    "one complex number, by grad": lambda t, x: t.autograd.grad((x * 1j)[:1], x),
    "a complex parameter": lambda t, x: t.nn.Parameter(t.ones(1, dtype=t.complex64)).backward(),
    "a number for requires_grad": lambda t, x: setattr(x, "requires_grad", 1),
    "a number for requires_grad_": lambda t, x: x.requires_grad_(1),
    "None for requires_grad_": lambda t, x: x.requires_grad_(None),
    "a gradient of another size": lambda t, x: setattr(x, "grad", t.ones(3)),
    "a number for a gradient": lambda t, x: setattr(x, "grad", 1),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_pytorch_refuses_is_refused_with_its_message(call):
    errors = []
    for lib in (tdt, require_torch()):
        with pytest.raises((RuntimeError, TypeError)) as caught:
            call(lib, lib.ones(2, requires_grad=True))
        errors.append((caught.type, str(caught.value).replace("torch.", "tdt.")))
    assert errors[0] == errors[1]


def test_a_real_sum_of_complex_numbers_needs_no_gradient():
    x = tdt.ones(2, dtype=tdt.complex64, requires_grad=True)
    x.abs().sum().backward()
    (x * 2).sum().backward(tdt.tensor(1 + 0j))
    assert x.grad.tolist() == [3, 3]


def test_the_gradient_checker_takes_pytorchs_switches():
    x = tdt.tensor([0.5, 2.0], dtype=tdt.float64, requires_grad=True)
    options = {"check_undefined_grad": False, "check_grad_dtypes": True}
    assert tdt.autograd.gradcheck(tdt.tanh, x, **options) and tdt.autograd.gradgradcheck(tdt.tanh, x, **options)
    for check, switch in (
        (tdt.autograd.gradcheck, "check_forward_ad"),
        (tdt.autograd.gradgradcheck, "check_batched_grad"),
    ):
        with pytest.raises(NotImplementedError, match="neither forward mode nor gradients of batches"):
            check(tdt.tanh, x, **{switch: True})


class Scaled(tdt.autograd.Function):
    """x * 3 (second output: x * 2), whose gradient is wrong by a factor, in one entry alone if `at` is one."""

    @staticmethod
    def forward(ctx, x, factor, at):
        ctx.factor, ctx.at = factor, at
        return x * 3, x * 2

    @staticmethod
    def backward(ctx, g, h):
        wrong = tdt.ones_like(g.real)
        wrong[ctx.at] = ctx.factor
        return (g * 3 + h * 2) * wrong, None, None


@pytest.mark.parametrize("at", [..., 4])
@pytest.mark.parametrize("dtype", [tdt.float64, tdt.complex128])
def test_the_fast_gradient_checker_finds_wrong_gradients(dtype, at):
    x = tdt.randn(6, dtype=dtype, requires_grad=True)
    for check in (tdt.autograd.gradcheck, tdt.autograd.gradgradcheck):
        assert check(lambda x: Scaled.apply(x, 1.0, at), x, fast_mode=True)
        assert check(lambda x: (x * x.conj() + x.exp(), x[2:] * 2j), x, fast_mode=True)
    with pytest.raises(tdt.autograd.gradcheck.__globals__["GradcheckError"], match="output 0 entry .* numerical"):
        tdt.autograd.gradcheck(lambda x: Scaled.apply(x, 1.01, at), x, fast_mode=True)
    assert not tdt.autograd.gradcheck(lambda x: Scaled.apply(x, 1.01, at), x, fast_mode=True, raise_exception=False)


def test_the_fast_gradient_checker_calls_the_function_as_often_for_any_size():
    calls = []

    def function(x):
        calls.append(x.numel())
        return x.sin()

    for n in (3, 300):
        assert tdt.autograd.gradcheck(function, tdt.randn(n, dtype=tdt.float64, requires_grad=True), fast_mode=True)
    assert calls.count(3) == calls.count(300) == 3
    empty = tdt.zeros(0, dtype=tdt.float64, requires_grad=True)
    assert tdt.autograd.gradcheck(tdt.sin, empty, fast_mode=True)
    scalar = tdt.tensor(0.3, dtype=tdt.float64, requires_grad=True)
    assert tdt.autograd.gradgradcheck(tdt.sin, scalar, fast_mode=True)


def test_the_fast_gradient_checker_finds_an_output_that_needs_a_gradient_and_has_none():
    x = tdt.randn(3, dtype=tdt.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        tdt.autograd.gradcheck(lambda x: tdt.from_numpy(x.detach().numpy() * 2), x, fast_mode=True)

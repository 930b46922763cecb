"""`__torch_function__` and `torch.overrides`; `flex_attention`, importable and clear about what it cannot do; `torch._C._nn`."""

from __future__ import annotations

import inspect

import pytest

import tdt
from tdt._core import torch_function
from tdt.compat import _C, overrides
from tdt.compat.nn.attention import flex_attention
from tests.helpers import require_torch


def both(function):
    """What a function of each library, and of its helpers, returns: ours, PyTorch's."""
    torch = require_torch()
    return [function(lib, helpers) for lib, helpers in ((tdt, overrides), (torch, torch.overrides))]


def logging(lib, log):
    """A class of tensors that lists the functions called with them."""

    class Logged(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((func.__name__, tuple(t.__name__ for t in types)))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logged


CALLS = {
    "operators": lambda t, x: [x + 1, 1 + x, x - 1, x * x, x / 2, x @ x, x**2, -x, x < 1, abs(x)],
    "in place": lambda t, x: [x.add_(1), x.mul_(2), x.zero_()],
    "functions": lambda t, x: [t.add(x, 1), t.cat([x, x]), t.stack((x,)), t.where(x > 0, x, x), t.zeros_like(x)],
    "layers": lambda t, x: [t.nn.functional.softmax(x, -1), t.nn.functional.linear(x, t.ones(3, 2))],
    "views": lambda t, x: [x.view(4), x[0], x[:, None], x.T, x.reshape(-1), x.detach(), x.data],
    "rows": lambda t, x: [*x],
    "several results": lambda t, x: [*x.max(0), *x.split(1), *x.unbind()],
    "copies": lambda t, x: [x.clone(), x.to(t.float64), x.double(), x.cpu(), x.new_zeros(2), x.contiguous()],
    "no tensors": lambda t, x: [
        x.shape,
        x.dtype,
        x.size(),
        x.numel(),
        len(x),
        x.tolist(),
        x.sum().item(),
        bool(x[0, 0]),
    ],
    "other tensors": lambda t, x: [t.ones(2, 2) + x, x + t.nn.Parameter(t.ones(2, 2)), t.nn.Parameter(t.ones(2)) * 2],
    "of values": lambda t, x: [t.as_tensor(x), t.nn.Linear(2, 1)(x), t.ones(2)],
    "written": lambda t, x: [x.__setitem__(0, 5), x, x.requires_grad_(), x.grad],
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("logged", [False, True])
def test_results_keep_the_class_and_handlers_see_what_they_see_in_pytorch(calls, logged):
    def types_of(lib, helpers):
        log: list = []
        lib.manual_seed(0)
        cls = logging(lib, log) if logged else type("Plain", (lib.Tensor,), {})
        results = calls(lib, lib.ones(2, 2).as_subclass(cls))
        return log, [type(r).__name__ for r in results], [r.tolist() for r in results if isinstance(r, lib.Tensor)]

    ours, theirs = both(types_of)
    assert ours == theirs


def test_a_gradient_flows_through_a_subclass_to_the_leaf():
    def gradient(lib, helpers):
        x = lib.ones(2, requires_grad=True)
        y = x.as_subclass(type("Sub", (lib.Tensor,), {}))
        (y * y).sum().backward()
        return y.is_leaf, x.grad.tolist(), type(x.grad) is lib.Tensor

    ours, theirs = both(gradient)
    assert ours == theirs == (False, [2.0, 2.0], True)


def test_metadata_follow_through_a_handler():
    """As in "Extending PyTorch": a tensor that carries a text, which results of functions have as well."""

    def texts(lib, helpers):
        class Named(lib.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                result = super().__torch_function__(func, types, args, kwargs or {})
                named = [a.text for a in args if isinstance(a, Named) and hasattr(a, "text")]
                if isinstance(result, Named) and named:
                    result.text = "+".join(named)
                return result

        a, b = lib.ones(2).as_subclass(Named), lib.ones(2).as_subclass(Named)
        a.text, b.text = "a", "b"
        return (a + b).text, lib.mul(a, 2).relu().text

    ours, theirs = both(texts)
    assert ours == theirs == ("a+b", "a")


def test_a_class_of_its_own_takes_functions_over_that_it_registers():
    def results(lib, helpers):
        lib.ones(1).as_subclass(type("Sub", (lib.Tensor,), {}))
        handled = {}

        class Scalar:
            def __init__(self, n, value):
                self.n, self.value = n, value

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return handled[func](*args, **(kwargs or {})) if func in handled else NotImplemented

        handled[lib.mean] = lambda x: x.value / x.n
        handled[lib.add] = lambda x, y: ("sum", type(x).__name__, type(y).__name__)
        scalar = Scalar(5, 2)
        with pytest.raises(TypeError, match=r"add_?'; all __torch_function__ handlers returned NotImplemented|mul"):
            lib.mul(scalar, scalar)
        return lib.mean(scalar), lib.add(lib.ones(1), scalar), helpers.is_tensor_like(scalar)

    ours, theirs = both(results)
    assert ours == theirs


def test_subclasses_come_before_their_bases_and_unrelated_classes_are_refused():
    def results(lib, helpers):
        base = type("Base", (lib.Tensor,), {})
        derived, other = type("Derived", (base,), {}), type("Other", (lib.Tensor,), {})
        x, y, z = (lib.ones(1).as_subclass(cls) for cls in (base, derived, other))
        with pytest.raises(TypeError):
            x + z
        with pytest.raises(TypeError, match="Multiple dispatch failed"):
            lib.add(x, z)
        return type(x + y).__name__, type(lib.cat([x, y])).__name__, helpers.has_torch_function((1, x))

    ours, theirs = both(results)
    assert ours == theirs == ("Derived", "Derived", True)


def test_modes_get_all_calls_of_their_block_innermost_first():
    def calls(lib, helpers):
        log: list = []

        class Mode(helpers.TorchFunctionMode):
            def __init__(self, name):
                self.name = name

            def __torch_function__(self, func, types, args=(), kwargs=None):
                log.append((self.name, func.__name__))
                return func(*args, **(kwargs or {}))

        x = lib.ones(2, 2)
        with Mode("outer"):
            x + 1
            with Mode("inner"):
                lib.nn.functional.cross_entropy(x, lib.tensor([0, 1]))
            lib.zeros(3)
        x + 1
        return log, helpers.has_torch_function((x,))

    ours, theirs = both(calls)
    assert ours == theirs


def test_a_mode_may_replace_results():
    class Doubled(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is tdt.ones else result

    with Doubled():
        assert tdt.ones(2).tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match="TorchFunctionMode has no method __torch_function__"):
        with overrides.TorchFunctionMode():
            tdt.ones(1)


def test_functions_of_a_program_take_part():
    def results(lib, helpers):
        cls = type("Sub", (lib.Tensor,), {})

        def double(x):
            if helpers.has_torch_function_unary(x):
                return helpers.handle_torch_function(double, (x,), x)
            return x * 2

        wrapped = helpers.wrap_torch_function(lambda x: (x,))(lambda x: x * 3)
        x = lib.ones(1).as_subclass(cls)
        return type(double(x)).__name__, type(wrapped(x)).__name__, double(lib.ones(1)).item()

    ours, theirs = both(results)
    assert ours == theirs == ("Sub", "Sub", 2.0)


def test_nothing_is_taken_over_where_it_is_disabled():
    cls = type("Sub", (tdt.Tensor,), {})
    x = tdt.ones(1).as_subclass(cls)
    with overrides.DisableTorchFunctionSubclass():
        assert type(x + 1) is tdt.Tensor and not overrides.has_torch_function((x,))
    assert type(x + 1) is cls


def test_helpers_know_the_functions():
    names = {name: {f.__name__ for f in functions} for name, functions in overrides.get_overridable_functions().items()}
    assert {"add", "cat", "mean", "numel"} <= names["tdt"] and {"cross_entropy", "linear"} <= names["tdt.nn.functional"]
    ignored = {f.__name__ for f in overrides.get_ignored_functions()}
    assert {"is_tensor", "manual_seed"} <= ignored and not {"add", "mean"} & ignored
    for function in (tdt.Tensor.add, tdt.mean, tdt.nn.functional.linear, tdt.Tensor.T.__get__):
        assert overrides.resolve_name(function).startswith("tdt.")
        assert overrides.is_tensor_method_or_property(function) == overrides.resolve_name(function).startswith(
            "tdt.Tensor"
        )
    assert overrides.resolve_name(tdt.manual_seed) is None
    assert overrides.get_testing_overrides()[tdt.add](1, 2) == -1
    assert tdt.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()


def test_functions_have_their_own_code_until_a_subclass_is_used_and_after():
    code, signature = tdt.add.__code__, inspect.signature(tdt.add)
    type("Unused", (tdt.Tensor,), {})
    tdt.nn.Parameter(tdt.ones(1))
    assert tdt.add.__code__ is code
    tdt.ones(1).as_subclass(type("Used", (tdt.Tensor,), {}))
    assert tdt.add.__code__ is not code and inspect.signature(tdt.add) == signature
    with pytest.raises(TypeError, match=r"argument 'other' \(position 2\) must be Tensor, not str"):
        tdt.add(tdt.ones(1), "a")
    torch_function.end()
    assert tdt.add.__code__ is code and inspect.signature(tdt.add) == signature


def test_flex_attention_is_refused_when_it_is_used():
    assert not isinstance(tdt.ones(1), flex_attention.BlockMask)
    for name in flex_attention.__all__:
        with pytest.raises(NotImplementedError, match=f"^{name}: .* use nn.functional.scaled_dot_product_attention"):
            getattr(flex_attention, name)(tdt.ones(1))
    assert flex_attention.__all__ and set(flex_attention.__all__) <= set(dir(_flex_attention_of_pytorch()))


def _flex_attention_of_pytorch():
    import importlib

    return importlib.import_module(f"{require_torch().__name__}.nn.attention.flex_attention")


PARSED = [
    lambda t: ("cpu",), lambda t: (t.float64,), lambda t: ("cpu", t.float16, True), lambda t: (t.ones(1),), lambda t: (),
]  # fmt: skip


@pytest.mark.parametrize("arguments", PARSED)
def test_arguments_of_to_are_parsed_as_in_pytorch(arguments):
    torch = require_torch()
    ours, theirs = _C._nn._parse_to(*arguments(tdt)), torch._C._nn._parse_to(*arguments(torch))
    assert [str(part).replace("torch.", "tdt.") for part in theirs] == [str(part) for part in ours]


def test_keyword_arguments_of_to_are_parsed():
    assert _C._nn._parse_to(dtype=tdt.float64, non_blocking=True) == (None, tdt.float64, True, None)

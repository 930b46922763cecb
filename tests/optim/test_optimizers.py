"""SGD, Adam and AdamW: PyTorch's trajectories for every option, its state, its errors."""

from __future__ import annotations

import collections
import copy
import itertools
import pickle
import warnings

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.optim._pair import SMALL, Pair, to_tdt, to_torch

torch = require_torch()

LARGE = ((350, 400), (5,), (0,), (40, 1))  # beyond the size at which a group goes to the kernel, with a small rest

SGD = [
    {"lr": 0.1, "momentum": m, "dampening": d, "weight_decay": w, "nesterov": n, "maximize": x}
    for m, d, w, n, x in itertools.product((0, 0.9), (0, 0.3), (0, 0.1), (False, True), (False, True))
    if not n or (m and not d)
]
ADAM = [
    {"lr": 0.01, "betas": b, "eps": e, "weight_decay": w, "amsgrad": a, "maximize": x}
    for (b, e), w, a, x in itertools.product(
        (((0.9, 0.999), 1e-8), ((0.5, 0.9), 1e-3)), (0.0, 0.1), (False, True), (False, True)
    )
]
CASES = [("SGD", o) for o in SGD] + [(name, o) for name in ("Adam", "AdamW") for o in ADAM]


def ids(case: object) -> str | None:
    if isinstance(case, dict):
        return "-".join(f"{k}={v}" for k, v in case.items() if v and k != "lr")
    return None


@pytest.mark.parametrize("name,options", CASES, ids=ids)
def test_fifty_steps_and_fifty_more_from_a_state_that_pytorch_saved(name, options):
    pair = Pair(name, options).step(50)
    pair.agree(rtol=1e-10, atol=1e-10)
    pair.our_optimizer = pair.new(tdt, pair.ours)
    pair.our_optimizer.load_state_dict(to_tdt(pair.their_optimizer.state_dict()))
    pair.step(50).agree(rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name,options", CASES[::3], ids=ids)
def test_the_kernel_takes_the_same_steps(name, options):
    pair = Pair(name, options, LARGE).step(10)
    (plan,) = pair.our_optimizer._plans.values()
    assert bool(plan.tables) is tdt.backends.kernels.enabled()
    pair.agree(rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shapes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name,options", [CASES[5], CASES[-1], CASES[-4]], ids=ids)
def test_float32_stays_within_rounding(name, options, shapes):
    Pair(name, options, shapes, "float32").step(30).agree(rtol=2e-6, atol=4e-6)


@pytest.mark.parametrize("name,options", [CASES[3], CASES[-1], CASES[-4]], ids=ids)
def test_complex_parameters_are_pairs_of_real_ones(name, options):
    Pair(name, options, dtype="complex128").step(20).agree(rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_parameters_with_occasional_gradients_keep_their_own_count(name):
    options = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
    pair = Pair(name, options, (*SMALL, (6,), (2, 2)))
    pair.step(30, without=lambda k, i: (k + i * i) % 5 < 2 or (i == 2 and k < 9)).agree(rtol=1e-10, atol=1e-10)
    theirs, ours = pair.their_optimizer.state_dict()["state"], pair.our_optimizer.state_dict()["state"]
    assert {k: float(s["step"]) for k, s in ours.items() if "step" in s} == {
        k: float(s["step"]) for k, s in theirs.items() if "step" in s
    }


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_groups_use_their_own_options_and_added_ones_join(name):
    extra = {"momentum": 0.5} if name == "SGD" else {"betas": (0.8, 0.9), "amsgrad": True}
    pair = Pair(
        name, {"lr": 0.1}, (*SMALL, (4,)), groups=[((0, 2), {"lr": 0.01, **extra}), ((1,), {"weight_decay": 0.3})]
    )
    pair.step(5)
    pair.their_optimizer.add_param_group({"params": pair.theirs[3:], "lr": 0.5})
    pair.our_optimizer.add_param_group({"params": pair.ours[3:], "lr": 0.5})
    pair.step(10).agree(rtol=1e-10, atol=1e-10)
    assert (
        to_torch(pair.our_optimizer.state_dict())["param_groups"] == pair.their_optimizer.state_dict()["param_groups"]
    )


@pytest.mark.parametrize("name,options", [("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True}), ("AdamW", {})])
def test_state_dict_has_pytorchs_layout_and_pytorch_resumes_from_it(name, options):
    pair = Pair(name, {"lr": 0.1, **options}).step(7)
    ours, theirs = to_torch(pair.our_optimizer.state_dict()), pair.their_optimizer.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for number, state in theirs["state"].items():
        assert sorted(ours["state"][number]) == sorted(state)
        for key, value in state.items():
            assert ours["state"][number][key].dtype == value.dtype
            torch.testing.assert_close(ours["state"][number][key], value, rtol=1e-12, atol=1e-12)
    pair.their_optimizer = pair.new(torch, pair.theirs)
    pair.their_optimizer.load_state_dict(ours)
    pair.step(7).agree(rtol=1e-10, atol=1e-10)


def test_names_of_parameters_are_saved_in_the_state():
    a, b = tdt.zeros(2, requires_grad=True), tdt.zeros(3, requires_grad=True)
    optimizer = tdt.optim.SGD([("a", a), ("b", b)], lr=0.1)
    assert optimizer.param_groups[0]["params"][1] is b
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [tdt.zeros(1, requires_grad=True)]})


def test_a_learning_rate_in_a_tensor_is_read_at_each_step():
    rate = tdt.tensor(0.5)
    p = tdt.zeros(2, requires_grad=True)
    optimizer = tdt.optim.SGD([p], lr=rate)
    p.grad = tdt.ones(2)
    optimizer.step()
    rate.fill_(0.25)
    optimizer.step()
    assert p.tolist() == [-0.75, -0.75]


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "NAdam", "Adagrad", "Adadelta", "Adafactor", "Muon"])
def test_a_learning_rate_of_numpy_is_that_number(name):
    def trained(rate):
        p = tdt.nn.Parameter(tdt.arange(6.0).reshape(2, 3))
        optimizer = getattr(tdt.optim, name)([p], lr=rate, weight_decay=rate)
        for _ in range(12):  # the last ones by the kernel
            optimizer.zero_grad()
            (p**2).sum().backward()
            optimizer.step()
        return p.tolist()

    assert trained(np.float64(0.02)) == trained(0.02)


def test_the_closure_runs_first_with_gradients_on_and_its_loss_is_returned():
    p = tdt.ones(1, requires_grad=True)
    optimizer = tdt.optim.SGD([p], lr=0.1)

    def closure() -> tdt.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with tdt.no_grad():
        assert optimizer.step(closure).item() == 1
    assert p.item() == pytest.approx(0.8)


def test_a_step_counts_as_a_write_in_place():
    p = tdt.ones(3, requires_grad=True)
    loss = (p * p).sum()
    p.grad = tdt.ones(3)
    tdt.optim.SGD([p], lr=0.1).step()
    assert p._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_zero_grad_forgets_or_fills_with_zeros():
    p = tdt.ones(3, requires_grad=True)
    optimizer = tdt.optim.SGD([p], lr=0.1)
    p.grad = grad = tdt.ones(3)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad
    assert grad.tolist() == [0, 0, 0]
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded gradient"])
@pytest.mark.parametrize("size", [6, 400])
def test_parameters_and_gradients_of_any_strides(layout, size):
    base = np.random.default_rng(0).normal(size=(size, size))
    for name in ("SGD", "Adam"):
        t, o = torch.tensor(base.copy()), tdt.tensor(base.copy())
        t, o = (t.T, o.T) if layout == "transposed" else (t[::2, 1:], o[::2, 1:]) if layout == "sliced" else (t, o)
        t, o = t.detach().requires_grad_(), o.detach().requires_grad_()
        g = np.broadcast_to(base[0, : t.shape[1]], tuple(t.shape))
        t.grad, o.grad = torch.tensor(g.copy()), tdt.from_numpy(g.copy())[:1].expand(*t.shape)
        theirs, ours = getattr(torch.optim, name)([t], lr=0.1), getattr(tdt.optim, name)([o], lr=0.1)
        for _ in range(3):
            theirs.step()
            ours.step()
        np.testing.assert_allclose(o.detach().numpy(), t.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_state_that_is_replaced_or_edited_by_hand_is_what_the_next_step_uses():
    pair = Pair("Adam", {"lr": 0.1}).step(3)
    theirs, ours = (pair.their_optimizer, pair.theirs, torch), (pair.our_optimizer, pair.ours, tdt)
    for optimizer, params, library in (theirs, ours):
        optimizer.state[params[1]]["exp_avg"] = library.tensor(np.full(5, 2.0))
        optimizer.state[params[0]]["step"].fill_(40)
        optimizer.state[params[2]]["exp_avg_sq"].mul_(3)
        optimizer.state.pop(params[3])
    pair.step(3).agree(rtol=1e-10, atol=1e-10)


def test_a_parameter_whose_data_is_replaced_keeps_its_state():
    pair = Pair("SGD", {"lr": 0.1, "momentum": 0.9}).step(3)
    pair.theirs[0].data = torch.ones(3, 4, dtype=torch.float64)
    pair.ours[0].data = tdt.ones(3, 4, dtype=tdt.float64)
    pair.step(3).agree(rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_a_copied_optimizer_steps_independently(copied):
    pair = Pair("Adam", {"lr": 0.1}, SMALL[:2]).step(3)
    copied_optimizer = copied(pair.our_optimizer)
    for p, q in zip(copied_optimizer.param_groups[0]["params"], pair.ours):
        p.grad = q.grad.clone()
    before = [p.detach().clone() for p in pair.ours]
    copied_optimizer.step()
    assert all(tdt.equal(a, b.detach()) for a, b in zip(before, pair.ours))
    pair.our_optimizer.step()
    for p, q in zip(copied_optimizer.param_groups[0]["params"], pair.ours):
        assert tdt.equal(p.detach(), q.detach())


def test_non_finite_gradients_reach_parameters_without_a_warning():
    for shapes in (SMALL, LARGE):
        pair = Pair("Adam", {"lr": 0.1, "amsgrad": True}, shapes)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for value in (np.nan, np.inf, -np.inf, 0.0):
                for t, o in zip(pair.theirs, pair.ours):
                    g = np.zeros(tuple(t.shape))
                    g.reshape(-1)[:3] = value
                    t.grad, o.grad = torch.tensor(g), tdt.tensor(g)
                pair.their_optimizer.step()
                pair.our_optimizer.step()
        pair.agree(rtol=1e-10, atol=1e-10)


def test_step_hooks_see_and_change_the_call():
    p = tdt.zeros(1, requires_grad=True)
    optimizer, calls = tdt.optim.SGD([p], lr=0.1), []
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("after"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert calls == ["before", "after", "after"]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_repr_is_pytorchs():
    for name in ("SGD", "Adam", "AdamW"):
        pair = Pair(name, {"lr": 0.1}, groups=[((0,), {}), ((1, 2), {"lr": 0.3})])
        assert repr(pair.our_optimizer) == repr(pair.their_optimizer)


def test_every_kind_of_kernel_switch_has_the_same_trajectory():
    with tdt.backends.kernels(False):
        reference = Pair("AdamW", {"lr": 0.1, "amsgrad": True}, LARGE).step(5)
        assert not next(iter(reference.our_optimizer._plans.values())).tables
    fast = Pair("AdamW", {"lr": 0.1, "amsgrad": True}, LARGE).step(5)
    for a, b in zip(reference.ours, fast.ours):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


def parameter(library: object) -> object:
    return library.zeros(2, requires_grad=True)


ERRORS = [
    ("SGD", lambda lib: ([parameter(lib)], {"lr": -1.0})),
    ("SGD", lambda lib: ([parameter(lib)], {"momentum": -0.1})),
    ("SGD", lambda lib: ([parameter(lib)], {"weight_decay": -0.1})),
    ("SGD", lambda lib: ([parameter(lib)], {"nesterov": True})),
    ("SGD", lambda lib: ([parameter(lib)], {"nesterov": True, "momentum": 0.9, "dampening": 0.1})),
    ("SGD", lambda lib: ([parameter(lib)], {"lr": lib.ones(2)})),
    ("SGD", lambda lib: ([parameter(lib)], {"foreach": True, "fused": True})),
    ("SGD", lambda lib: (parameter(lib), {})),
    ("SGD", lambda lib: ([], {})),
    ("SGD", lambda lib: ([3], {})),
    ("SGD", lambda lib: ([parameter(lib) * 2], {})),
    ("SGD", lambda lib: ([{"params": {parameter(lib)}}], {})),
    ("SGD", lambda lib: ([("a", parameter(lib)), parameter(lib)], {})),
    ("SGD", lambda lib: ((lambda p: [{"params": [p]}, {"params": [p]}])(parameter(lib)), {})),
    ("Adam", lambda lib: ([parameter(lib)], {"lr": -1.0})),
    ("Adam", lambda lib: ([parameter(lib)], {"eps": -1.0})),
    ("Adam", lambda lib: ([parameter(lib)], {"betas": (1.0, 0.9)})),
    ("Adam", lambda lib: ([parameter(lib)], {"betas": (0.9, -0.1)})),
    ("Adam", lambda lib: ([parameter(lib)], {"betas": (0.9, lib.tensor(0.9))})),
    ("Adam", lambda lib: ([parameter(lib)], {"weight_decay": -0.1})),
    ("Adam", lambda lib: ([parameter(lib)], {"lr": lib.tensor(0.1), "foreach": True})),
    ("Adam", lambda lib: ([parameter(lib)], {"lr": lib.ones(2)})),
    ("AdamW", lambda lib: ([parameter(lib)], {"betas": (0.9, 1.0)})),
]


@pytest.mark.parametrize("name,make", ERRORS)
def test_errors_have_pytorchs_class_and_begin_with_its_message(name, make):
    params, options = make(torch)
    with pytest.raises(Exception) as theirs:  # noqa: PT011, B017 - whatever PyTorch raises
        getattr(torch.optim, name)(params, **options)
    params, options = make(tdt)
    with pytest.raises(theirs.type) as ours:
        getattr(tdt.optim, name)(params, **options)
    assert str(ours.value).split()[:4] == str(theirs.value).replace("torch", "tdt").split()[:4]


def test_loading_a_state_of_other_groups_is_refused():
    a, b = parameter(tdt), parameter(tdt)
    one, two = tdt.optim.SGD([a]), tdt.optim.SGD([{"params": [a]}, {"params": [b]}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        one.load_state_dict(two.state_dict())
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        one.load_state_dict(tdt.optim.SGD([a, b]).state_dict())


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_state_of_another_models_shapes_is_refused_at_the_next_step(name):
    for library in (tdt, torch):
        params = [library.zeros(size, requires_grad=True) for size in (2, 5)]
        for p in params:
            p.grad = library.ones(p.shape)
        small, large = (
            getattr(library.optim, name)([p], lr=0.1, **({"momentum": 0.9} if name == "SGD" else {})) for p in params
        )
        large.step()
        small.load_state_dict(large.state_dict())
        with pytest.raises(RuntimeError, match="The size of .*must match"):
            small.step()
        assert params[0].tolist() == [0, 0]


def test_betas_in_a_list_are_stored_as_a_tuple():
    for library in (tdt, torch):
        for name in ("Adam", "AdamW"):
            optimizer = getattr(library.optim, name)([parameter(library)], betas=[0.9, 0.99])
            assert optimizer.param_groups[0]["betas"] == (0.9, 0.99)


def test_an_optimizer_written_by_hand_gets_groups_state_and_hooks():
    class SignSGD(tdt.optim.Optimizer):
        def __init__(self, params: object, lr: float):
            super().__init__(params, {"lr": lr})

        @tdt.no_grad()
        def step(self) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["count"] = self.state[p].get("count", 0) + 1
                    p.sub_(group["lr"] * p.grad.sign())

    p, calls = parameter(tdt), []
    optimizer = SignSGD([p], lr=0.5)
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    p.grad = tdt.tensor([3.0, -4.0])
    optimizer.step()
    assert p.tolist() == [-0.5, 0.5]
    assert calls == [1]
    assert optimizer.state_dict()["state"] == {0: {"count": 1}}


def test_an_optimizer_that_skips_the_base_constructor_steps_saves_loads_and_takes_hooks():
    def wrapped(library: object) -> object:
        class Lookahead(library.optim.Optimizer):
            def __init__(self, inner: object):
                self.inner, self.defaults = inner, {}
                self.param_groups, self.state = inner.param_groups, inner.state

            def step(self, closure: object = None) -> object:
                return self.inner.step(closure)

        p = parameter(library)
        p.grad = library.ones(2)
        optimizer = Lookahead(library.optim.SGD([p], lr=0.5, momentum=0.9))
        optimizer.step()
        return optimizer

    ours, theirs = wrapped(tdt), wrapped(torch)
    assert ours.param_groups[0]["params"][0].tolist() == theirs.param_groups[0]["params"][0].tolist()
    calls = []
    ours._patch_step_function()  # as PyTorch's subclasses do after they have set these
    ours._optimizer_step_pre_hooks = {}
    ours.register_step_pre_hook(lambda *_: calls.append("before"))
    ours.register_step_post_hook(lambda *_: calls.append("after"))
    ours.step()
    assert calls == ["before", "after"]
    ours.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()["state"]) == [0]


def test_a_subclass_of_an_optimizer_that_skips_the_base_constructor_steps():
    class Plain(tdt.optim.Adam):
        def __init__(self, params: list):
            self.defaults = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False,
                             "maximize": False, "decoupled_weight_decay": False, "differentiable": False}  # fmt: skip
            self.state, self.param_groups = collections.defaultdict(dict), [{"params": params, **self.defaults}]

    p = parameter(tdt)
    before = p.detach().clone()
    p.grad = tdt.ones(2)
    Plain([p]).step()
    assert (before - p.detach()).numpy() == pytest.approx(0.1)


def test_the_hooks_run_once_where_a_step_calls_that_of_its_base_class():
    class Counting(tdt.optim.SGD):
        def step(self, closure: object = None) -> object:
            return super().step(closure)

    p, calls = parameter(tdt), []
    optimizer = Counting([p], lr=0.5)
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1]

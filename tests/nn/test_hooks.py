"""Hooks of modules: each program runs on both libraries and must tell the same story."""

import gc
import importlib
import weakref

import pytest

import tdt
from tests.nn._compare import agree_error, agree_on_program, torch

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def linear(lib):
    lib.manual_seed(0)
    return lib.nn.Linear(2, 3)


def net(lib):
    lib.manual_seed(0)
    return lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3), lib.nn.ReLU())


def backward(module, lib, requires_grad=True):
    """The gradients of the input and of the weight after a backward of the sum."""
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=requires_grad)
    module(x).sum().backward()
    return x.grad, module.weight.grad


@program
def backward_hooks_see_both_gradients(lib):
    log, m = [], linear(lib)
    m.register_full_backward_hook(lambda module, gi, go: log.append(("full", type(gi), gi, go)))
    m.register_full_backward_pre_hook(lambda module, go: log.append(("pre", type(go), go)))
    return log, backward(m, lib)


@program
def what_backward_hooks_return_replaces_gradients(lib):
    m = linear(lib)
    m.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
    m.register_full_backward_hook(lambda module, gi, go: (gi[0] + 1,))
    m.register_full_backward_pre_hook(lambda module, go: (go[0] * 3,))
    return backward(m, lib)


@program
def backward_hooks_run_in_order(lib):
    log, m = [], linear(lib)
    for name, prepend in (("second", False), ("first", True)):
        m.register_full_backward_hook(lambda *a, name=name: log.append(name), prepend=prepend)
        m.register_full_backward_pre_hook(lambda *a, name=name: log.append("pre " + name), prepend=prepend)
    return log, backward(m, lib)


@program
def backward_hooks_of_nested_modules_run_from_the_end(lib):
    log, m = [], net(lib)
    for name, module in m.named_modules():
        module.register_full_backward_hook(lambda *a, name=name: log.append(name))
    m(lib.ones(4, 2, requires_grad=True)).sum().backward()
    return log


@program
def a_backward_hook_that_was_removed_is_not_called(lib):
    log, m = [], linear(lib)
    m.register_full_backward_hook(lambda *a: log.append(1)).remove()
    return log, backward(m, lib)


@program
def backward_hooks_are_not_called_without_recording(lib):
    log, m = [], linear(lib)
    m.register_full_backward_hook(lambda *a: log.append(1))
    with lib.no_grad():
        return log, m(lib.ones(1, 2, requires_grad=True)).requires_grad


@program
def a_module_with_several_inputs_and_outputs(lib):
    class Several(lib.nn.Module):
        def forward(self, a, b, name):
            return a * 2, b * 3, name

    log, m = [], Several()
    m.register_full_backward_hook(lambda module, gi, go: log.append((gi, go)))
    x, y = lib.ones(2, requires_grad=True), lib.ones(2)
    outputs = m(x, y, "s")
    (outputs[0] * lib.tensor([1.0, 5.0])).sum().backward()
    return log, x.grad, outputs[2]


@program
def one_module_called_twice(lib):
    log, m = [], lib.nn.Tanh()
    m.register_full_backward_hook(lambda module, gi, go: log.append((gi, go)))
    m(m(lib.ones(1, requires_grad=True))).backward()
    return log


@program
def second_derivatives_pass_backward_hooks(lib):
    m = lib.nn.Tanh()
    m.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
    x = lib.tensor([0.5], requires_grad=True)
    (g,) = lib.autograd.grad(m(x), x, create_graph=True)
    return g, lib.autograd.grad(g, x)


@program
def a_deprecated_backward_hook_of_one_operation(lib):
    log, m = [], lib.nn.Tanh()
    m.register_backward_hook(lambda module, gi, go: log.append((gi, go)) or (gi[0] * 2,))
    x = lib.tensor([0.5], requires_grad=True)
    m(x).backward()
    return log, x.grad


@program
def hooks_on_every_module(lib):
    modules, log = importlib.import_module(f"{lib.__name__}.nn.modules.module"), []

    def note(what):
        return lambda module, *rest: log.append((what, type(module).__name__))

    def name(what):
        return lambda module, name, value: log.append((what, name))

    handles = [
        modules.register_module_forward_pre_hook(note("before")),
        modules.register_module_forward_hook(note("after")),
        modules.register_module_full_backward_pre_hook(note("backward before")),
        modules.register_module_full_backward_hook(note("backward after")),
        modules.register_module_parameter_registration_hook(name("parameter")),
        modules.register_module_buffer_registration_hook(name("buffer")),
        modules.register_module_module_registration_hook(name("module")),
    ]
    m = net(lib)
    m(lib.ones(3, 2, requires_grad=True)).sum().backward()
    for handle in handles:
        handle.remove()
    m(lib.ones(3, 2, requires_grad=True)).sum().backward()
    return log


@program
def what_a_registration_hook_returns_is_registered(lib):
    modules = importlib.import_module(f"{lib.__name__}.nn.modules.module")
    with modules.register_module_parameter_registration_hook(
        lambda module, name, value: lib.nn.Parameter(lib.ones(1)) if name == "bias" else None
    ):
        m = lib.nn.Module()
        m.bias, m.weight = lib.nn.Parameter(lib.zeros(3)), lib.nn.Parameter(lib.zeros(2))
    return m.bias, m.weight


@program
def state_hooks_are_called_in_order(lib):
    log, m = [], net(lib)
    m.register_state_dict_pre_hook(lambda module, prefix, keep: log.append(("pre", prefix, keep)))
    m.register_state_dict_post_hook(lambda module, state, prefix, meta: log.append(("post", len(state), dict(meta))))
    m.register_load_state_dict_pre_hook(lambda module, state, *rest: log.append(("load", len(state), *rest)))
    m.register_load_state_dict_post_hook(lambda module, keys: log.append(("loaded", list(keys.missing_keys))))
    m.load_state_dict(m.state_dict())
    return log


@program
def a_load_hook_may_rename_entries_of_the_modules_below(lib):
    def rename(module, state, prefix, *rest):
        for key in list(state):
            state[key.replace("first.", "0.")] = state.pop(key)

    m = net(lib)
    m.register_load_state_dict_pre_hook(rename)
    state = {key.replace("0.", "first."): lib.ones_like(value) for key, value in m.state_dict().items()}
    return repr(m.load_state_dict(state)), m[0].weight


@program
def a_load_hook_may_forgive_missing_entries(lib):
    m = net(lib)
    m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    return repr(m.load_state_dict({}))


@program
def assigned_parameters_keep_whether_they_want_gradients(lib):
    m = linear(lib)
    m.weight.requires_grad_(False)
    m.load_state_dict(linear(lib).state_dict(keep_vars=True), assign=True)
    return m.weight.requires_grad, m.bias.requires_grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_hooks_goes_as_in_pytorch(name):
    agree_on_program(PROGRAMS[name])


def test_a_deprecated_backward_hook_on_every_module_keeps_out_full_ones(monkeypatch):
    monkeypatch.setattr(tdt.nn.modules._hooks, "_everywhere", {})
    monkeypatch.setattr(torch.nn.modules.module, "_global_is_full_backward_hook", None)

    def run(lib):
        modules, log, relu = importlib.import_module(f"{lib.__name__}.nn.modules.module"), [], lib.nn.ReLU()
        with modules.register_module_backward_hook(lambda *a: log.append((type(a[0]).__name__, a[1:]))):
            relu(lib.tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
        with pytest.raises(
            RuntimeError, match="Cannot use both regular backward hooks and full backward hooks as a global"
        ):
            modules.register_module_full_backward_hook(print)
        return log

    agree_on_program(run)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_backward_hook_of_a_module_whose_inputs_require_no_gradient_warns(requires_grad):
    for lib in (tdt, torch):
        log, m = [], linear(lib)
        m.register_full_backward_hook(lambda module, gi, go, log=log: log.append(gi))
        if requires_grad:
            backward(m, lib)
        else:
            with pytest.warns(UserWarning, match="no inputs require gradients"):
                backward(m, lib, requires_grad=False)
            assert log == [(None,)]


def test_a_non_tensor_result_cannot_have_backward_hooks():
    for lib in (tdt, torch):
        m = type("Named", (lib.nn.Module,), {"forward": lambda self, x: {"x": x * 2}})()
        m.register_full_backward_hook(lambda *a: None)
        x = lib.ones(1, requires_grad=True)
        with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
            m(x)["x"].backward()
        assert x.grad.tolist() == [2.0]


def test_hooks_do_not_keep_a_module_alive():
    gc.disable()
    try:
        module = hooked(tdt, **dict.fromkeys(("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post",
                                              "forward", "forward_pre", "full_backward"), lambda *args: None))  # fmt: skip
        module.load_state_dict(module.state_dict())
        reference = weakref.ref(module)
        del module
        assert reference() is None
    finally:
        gc.enable()


def hooked(lib, **hooks):
    m = linear(lib)
    for name, hook in hooks.items():
        getattr(m, f"register_{name}_hook")(hook)
    return m


@pytest.mark.parametrize("wrong", [
    lambda lib: backward(hooked(lib, full_backward=lambda m, gi, go: (gi[0], gi[0])), lib),
    lambda lib: backward(hooked(lib, full_backward_pre=lambda m, go: (go[0], go[0])), lib),
    lambda lib: hooked(lib, backward=print, full_backward=print),
    lambda lib: hooked(lib, full_backward=print, backward=print),
    lambda lib: hooked(lib, state_dict_post=lambda *a: {}).state_dict(),
    lambda lib: hooked(lib, load_state_dict_post=lambda *a: 1).load_state_dict(linear(lib).state_dict()),
])  # fmt: skip
def test_what_hooks_must_not_return_is_refused_as_in_pytorch(wrong):
    with pytest.raises((RuntimeError, AssertionError)) as theirs:
        wrong(torch)
    agree_error(wrong, str(theirs.value).split(",")[0])

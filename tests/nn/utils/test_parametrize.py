"""Parametrized tensors: orthogonal, weight norm, spectral norm and users' own, by the new way and by hooks, as PyTorch's."""

import copy
import importlib
import pickle
import warnings

import numpy as np
import pytest

import tdt
from tests.nn._compare import agree_error, agree_on_program, near, numbers, of, same_state, torch


def parametrize(lib):
    return importlib.import_module(f"{lib.__name__}.nn.utils.parametrize")


def kinds(lib):
    """A user's parametrizations."""
    base = lib.nn.Module

    class Symmetric(base):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, x):
            return x.triu()

    class Doubled(base):
        def forward(self, x):
            return 2 * x

    class Halves(base):
        def forward(self, a, b):
            return lib.cat([a, b])

        def right_inverse(self, x):
            n = x.shape[0] // 2
            return x[:n], x[n:]

    return Symmetric, Doubled, Halves


def layer(lib, *sizes, **options):
    lib.manual_seed(0)
    return lib.nn.Linear(*(sizes or (4, 4)), **options)


MAKERS = {
    "weight norm": lambda lib: lib.nn.utils.parametrizations.weight_norm(layer(lib)),
    "weight norm of all": lambda lib: lib.nn.utils.parametrizations.weight_norm(layer(lib), dim=None),
    "weight norm by columns": lambda lib: lib.nn.utils.parametrizations.weight_norm(layer(lib), dim=1),
    "spectral norm": lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib, 4, 3), n_power_iterations=2),
    "spectral norm of a vector": lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib), "bias"),
    "orthogonal exp": lambda lib: lib.nn.utils.parametrizations.orthogonal(layer(lib)),
    "orthogonal cayley": lambda lib: lib.nn.utils.parametrizations.orthogonal(
        layer(lib, 4, 6), orthogonal_map="cayley"
    ),
    "orthogonal tall": lambda lib: lib.nn.utils.parametrizations.orthogonal(layer(lib, 4, 6)),
    "orthogonal wide": lambda lib: lib.nn.utils.parametrizations.orthogonal(layer(lib, 4, 2)),
    "orthogonal exp wide": lambda lib: lib.nn.utils.parametrizations.orthogonal(
        layer(lib, 4, 2), orthogonal_map="matrix_exp"
    ),
    "householder plain": lambda lib: lib.nn.utils.parametrizations.orthogonal(
        layer(lib, 4, 6), use_trivialization=False
    ),
    "exp plain": lambda lib: lib.nn.utils.parametrizations.orthogonal(layer(lib), use_trivialization=False),
    "own": lambda lib: parametrize(lib).register_parametrization(layer(lib), "weight", kinds(lib)[0]()),
    "two": lambda lib: parametrize(lib).register_parametrization(MAKERS["own"](lib), "weight", kinds(lib)[1]()),
    "parts": lambda lib: parametrize(lib).register_parametrization(layer(lib), "weight", kinds(lib)[2]()),
    "old weight norm": lambda lib: lib.nn.utils.weight_norm(layer(lib)),
    "old weight norm of all": lambda lib: lib.nn.utils.weight_norm(layer(lib), dim=None),
    "old spectral norm": lambda lib: lib.nn.utils.spectral_norm(layer(lib, 4, 3)),
}


def parametrized(name, lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return MAKERS[name](lib)


@pytest.mark.parametrize("name", MAKERS)
def test_a_parametrized_layer_is_pytorchs(name):
    ours, theirs = (parametrized(name, lib).double() for lib in (tdt, torch))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    for key, value in theirs.state_dict().items():
        near(ours.state_dict()[key].float(), value.float(), key)
    same_state(ours, theirs)
    results = []
    for _ in range(2):
        x = numbers(5, 4, dtype="float64")
        results.append([m(of(lib, x)).square().sum() for lib, m in ((tdt, ours), (torch, theirs))])
    for a, b in results:
        near(a, b, "result")
        a.backward()
        b.backward()
    for (n, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        near(p.grad, q.grad, f"gradient of {n}")
    for (n, p), q in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        near(p, q, n)


@pytest.mark.parametrize("name", [n for n in MAKERS if not n.startswith("old")])
def test_a_parametrized_layer_is_copied_and_becomes_ordinary_again(name):
    weight = "bias" if "vector" in name else "weight"

    def run(lib):
        p, m = parametrize(lib), parametrized(name, lib)
        m.eval()
        value = getattr(m, weight).detach().clone()
        copied = copy.deepcopy(m)
        assert p.type_before_parametrizations(copied) is lib.nn.Linear
        with pytest.raises(
            RuntimeError, match="Serialization of parametrized modules is only supported through state_dict"
        ):
            pickle.dumps(m)
        p.remove_parametrizations(m, weight)
        assert (getattr(m, weight) == value).all()
        if lib is tdt:  # in PyTorch the copy shares the class, and has lost its weight
            assert (getattr(copied, weight) == value).all()
        return type(m).__name__, list(m.state_dict()), getattr(m, weight).requires_grad, p.is_parametrized(copied), hasattr(
            m, "parametrizations"), value.double() * 1000 // 1  # fmt: skip

    if "plain" in name or name == "orthogonal exp":
        run(tdt), run(torch)  # values that no seed decides to the last digit
    else:
        ours, theirs = run(tdt), run(torch)
        assert ours[:-1] == theirs[:-1]
        np.testing.assert_allclose(ours[-1].numpy(), theirs[-1].numpy(), atol=1)


@pytest.mark.parametrize("name", ["weight norm", "own", "parts", "orthogonal exp", "orthogonal tall", "orthogonal wide",
                                  "householder plain"])  # fmt: skip
def test_a_parametrized_tensor_can_be_assigned(name):
    shape = {"orthogonal tall": (6, 4), "orthogonal wide": (2, 4), "householder plain": (6, 4)}.get(name, (4, 4))
    value = np.linalg.qr(numbers(*sorted(shape, reverse=True), dtype="float64"))[0]
    value = (value if value.shape == shape else value.T).astype("float32")
    if name == "own":
        value = value + value.T
    for lib in (tdt, torch):
        m = parametrized(name, lib)
        known = dict(m.named_parameters())
        m.weight = of(lib, value).detach()
        np.testing.assert_allclose(m.weight.detach().numpy(), value, atol=2e-6)
        assert all(known[n] is p for n, p in m.named_parameters())
        assert m.weight.requires_grad


def test_cached_tensors_are_computed_once_per_block():
    def run(lib):
        count, p = [], parametrize(lib)

        class Counted(lib.nn.Module):
            def forward(self, x):
                count.append(1)
                return x + 1

        m = p.register_parametrization(layer(lib), "weight", Counted(), unsafe=True)
        del count[:]
        with p.cached():
            first = m.weight
            with p.cached():
                assert m.weight is first
            assert m.weight is first
        assert m.weight is not first
        return len(count)

    agree_on_program(run)


def test_unparametrized_values_can_be_left():
    def run(lib):
        m = parametrized("two", lib)
        original = m.parametrizations.weight.original
        parametrize(lib).remove_parametrizations(m, "weight", leave_parametrized=False)
        return m.weight is original, m.weight

    agree_on_program(run)


def test_a_buffer_is_parametrized_too():
    def run(lib):
        m = lib.nn.BatchNorm1d(2)
        parametrize(lib).register_parametrization(m, "running_mean", kinds(lib)[1]())
        m.running_mean  # noqa: B018
        return (
            repr(m),
            list(m.state_dict()),
            [n for n, _ in m.named_buffers()],
            parametrize(lib).is_parametrized(m, "weight"),
        )

    agree_on_program(run)


@pytest.mark.parametrize("name", ["weight norm", "two", "orthogonal exp"])
def test_parametrizations_are_handed_to_another_module(name):
    def run(lib):
        source, target = parametrized(name, lib), layer(lib)
        assert parametrize(lib).transfer_parametrizations_and_params(source, target) is target
        assert (source.weight == target.weight).all()
        unlike = lib.nn.Module()
        parametrize(lib).transfer_parametrizations_and_params(source, unlike, "weight")
        assert (source.weight == unlike.weight).all()
        return list(target.state_dict()), type(target).__name__, type(unlike).__name__

    agree_on_program(run)


def test_states_of_the_weight_norm_hook_are_read():
    for lib in (tdt, torch):
        old, new = parametrized("old weight norm", lib), parametrized("weight norm", lib)
        new.weight = lib.ones(4, 4)
        assert repr(new.load_state_dict(old.state_dict())) == "<All keys matched successfully>"
        assert (new.weight == old.weight).all()


def test_the_hooks_can_be_removed():
    for name, what in (("old weight norm", "weight_norm"), ("old spectral norm", "spectral_norm")):

        def run(lib, name=name, what=what):
            m = parametrized(name, lib)
            m(lib.ones(1, 4))
            value = m.weight.detach().clone()
            assert getattr(lib.nn.utils, f"remove_{what}")(m) is m
            assert lib.allclose(m.weight, value)
            if lib is tdt:  # PyTorch leaves one that reads states
                assert not m._load_state_dict_pre_hooks
            return list(m.state_dict()), len(m._forward_pre_hooks), len(m._state_dict_hooks), type(m.weight).__name__

        agree_on_program(run)
        agree_error(lambda lib, what=what: getattr(lib.nn.utils, f"remove_{what}")(layer(lib)))


def test_a_copy_of_a_layer_with_a_spectral_norm_hook_loses_its_own_hooks_alone():
    layer_ = parametrized("old spectral norm", tdt)
    layer_.eval()(tdt.ones(1, 4))
    layer_.weight = layer_.weight.detach()  # as in PyTorch, a result cannot be copied
    copied = copy.deepcopy(layer_)
    tdt.nn.utils.remove_spectral_norm(copied)
    assert not copied._load_state_dict_pre_hooks
    assert len(layer_._load_state_dict_pre_hooks) == len(layer_._state_dict_hooks) == 1
    assert "spectral_norm" in layer_.state_dict()._metadata[""]
    assert "spectral_norm" not in copied.state_dict()._metadata[""]


def test_a_state_from_before_spectral_norm_had_a_v_is_read():
    def run(lib):
        m, second = (lib.nn.utils.spectral_norm(layer(lib, 3, 4)) for _ in range(2))
        m(lib.ones(1, 3))
        state = m.state_dict()
        version = dict(state._metadata[""])
        state["weight"] = m.weight.detach().clone()
        del state["weight_v"], state._metadata[""]["spectral_norm"]
        loaded = second.load_state_dict(state)
        del state["weight_u"]
        state["weight"] = m.weight.detach()
        return version, repr(loaded), second.weight_v, second.load_state_dict(state, strict=False).missing_keys

    agree_on_program(run)


def test_a_weight_norm_hook_warns_that_it_is_deprecated():
    for lib in (tdt, torch):
        with pytest.warns(FutureWarning, match="nn.utils.weight_norm` is deprecated in favor of"):
            lib.nn.utils.weight_norm(layer(lib))


def wrong(lib, result, **options):
    kind = type("Wrong", (lib.nn.Module,), {"forward": lambda self, x: result(x)})
    return parametrize(lib).register_parametrization(layer(lib), "weight", kind(), **options)


def inverse(lib, result, into=None):
    kind = type("Wrong", (lib.nn.Module,), {"forward": lambda self, x: x, "right_inverse": lambda self, x: result(x)})
    return parametrize(lib).register_parametrization(into or layer(lib), "weight", kind())


REFUSED = {
    "other dtype": (lambda lib: wrong(lib, lambda x: x.double()), "Registering a parametrization may not change the dtype"),
    "other shape": (lambda lib: wrong(lib, lambda x: x[0]), "Registering a parametrization may not change the shape"),
    "no tensor": (lambda lib: wrong(lib, lambda x: 3), ""),
    "no such name": (lambda lib: parametrize(lib).register_parametrization(layer(lib), "wait", lib.nn.Identity()), ""),
    "inverse of no tensor": (lambda lib: inverse(lib, lambda x: 3), ""),
    "inverse of other dtype": (lambda lib: inverse(lib, lambda x: x.double()), ""),
    "inverse of numbers": (lambda lib: inverse(lib, lambda x: [3]), "Got element 0 of the sequence with type int"),
    "second of other shape": (
        lambda lib: parametrize(lib).register_parametrization(
            parametrized("own", lib), "weight", type("W", (lib.nn.Module,), {"forward": lambda self, x: x[0]})()),
        "Registering a parametrization may not change the shape"),
    "second inverse of no tensor": (lambda lib: inverse(lib, lambda x: 3, parametrized("own", lib)),
                                    "parametrization.right_inverse must return a tensor"),
    "second inverse of other dtype": (lambda lib: inverse(lib, lambda x: x.double(), parametrized("own", lib)),
                                      "The tensor returned by parametrization.right_inverse must have the same dtype"),
    "assigned without inverse": (lambda lib: setattr(parametrized("two", lib), "weight", lib.ones(4, 4)), ""),
    "removed from nothing": (lambda lib: parametrize(lib).remove_parametrizations(layer(lib), "weight"), ""),
    "parts left": (lambda lib: parametrize(lib).remove_parametrizations(parametrized("parts", lib), "weight", False), ""),
    "no modules": (lambda lib: parametrize(lib).ParametrizationList([], lib.ones(1)), ""),
    "orthogonal vector": (lambda lib: lib.nn.utils.parametrizations.orthogonal(layer(lib), "bias"), ""),
    "orthogonal nothing": (lambda lib: lib.nn.utils.parametrizations.orthogonal(layer(lib), "wait"), ""),
    "orthogonal map": (lambda lib: lib.nn.utils.parametrizations.orthogonal(layer(lib), orthogonal_map="qr"), ""),
    "orthogonal complex": (lambda lib: lib.nn.utils.parametrizations.orthogonal(
        layer(lib, dtype=lib.complex64), orthogonal_map="householder"), ""),
    "orthogonal shape": (lambda lib: setattr(parametrized("orthogonal exp", lib), "weight", lib.ones(3, 3)),
        "Expected a matrix or"),
    "spectral nothing": (lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib), "wait"), ""),
    "spectral dim": (lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib), dim=2), ""),
    "spectral times": (lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib), n_power_iterations=0), ""),
    "old spectral times": (lambda lib: lib.nn.utils.spectral_norm(layer(lib), n_power_iterations=0), ""),
    "old spectral twice": (lambda lib: lib.nn.utils.spectral_norm(parametrized("old spectral norm", lib)), ""),
    "old spectral None": (lambda lib: lib.nn.utils.spectral_norm(layer(lib, 2, 2, bias=False), "bias"), ""),
    "old spectral lazy": (lambda lib: lib.nn.utils.spectral_norm(lib.nn.LazyLinear(2)), ""),
    "old weight twice": (lambda lib: lib.nn.utils.weight_norm(parametrized("old weight norm", lib)), ""),
    "old weight lazy": (lambda lib: lib.nn.utils.weight_norm(lib.nn.LazyLinear(2)), ""),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    call, clause = REFUSED[name]
    agree_error(call, clause)


def test_unsafe_parametrizations_may_change_everything():
    def run(lib):
        m = wrong(lib, lambda x: x[0].double(), unsafe=True)
        return m.weight.shape, str(m.weight.dtype).split(".")[1]

    agree_on_program(run)


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_matrix_exponential_is_scipys(scale, dtype):
    import scipy.linalg

    a = scale * numbers(7, 7, dtype="float64") / 7
    a = a + 1j * a.T if dtype == "complex128" else a
    ours = tdt.nn.utils.parametrizations._matrix_exp(tdt.from_numpy(a)).numpy()
    expected = scipy.linalg.expm(a)
    np.testing.assert_allclose(ours, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(5, 5), (6, 3), (2, 4, 3)], ids=str)
def test_products_of_reflectors_are_lapacks(shape):
    a, tau = numbers(*shape, dtype="float64"), numbers(*shape[:-2], shape[-1], dtype="float64", seed=1)
    tau[..., 0] = 0
    ours = tdt.nn.utils.parametrizations._householder_product(tdt.from_numpy(a), tdt.from_numpy(tau))
    near(ours, torch.linalg.householder_product(torch.from_numpy(a), torch.from_numpy(tau)), "product")
